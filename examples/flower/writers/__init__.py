"""Writers of characters, one on each node; those who write 0 to 4 have slow devices."""
