"""Tasks: data, its split among clients, and a model to train on it."""
