"""What can be done from the command line: a file for each thing, its options beside it."""
