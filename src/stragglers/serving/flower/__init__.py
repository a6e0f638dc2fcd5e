"""Flower's clients under our servers: late reports have their place, which its strategies have not.

    server.py    serve(): in a ServerApp, any algorithm and policy over Flower's Grid
    client.py    answer(): in a ClientApp, local training in any framework; needs no jax
    messages.py  what travels between the two

docs/how-to/flower.md has a whole app.
"""

try:
    import flwr as _  # noqa: F401
except ImportError as error:
    raise ImportError(
        "stragglers.serving.flower needs Flower: pip install 'stragglers[flower]'"
    ) from error
