"""Files that others published: containers of clients' examples, and prepared arrays."""
