"""Tasks: clients' examples, who is a straggler, a test set and a model to train.

`models` has the networks, `datasets` reads the files of others. Imports `_core` to `algorithms`.
"""
