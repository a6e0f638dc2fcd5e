"""A Flower client of version 0.1.0."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from stragglers.flower.client import Sent, answer

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    def learn(sent: Sent):
        return sent.model, 1

    return answer(message, learn)
