"""A node: softmax regression on its own writer's drawings, by NumPy alone."""

import time

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from stragglers.serving.flower.client import Sent, answer
from writers.data import CLASSES, of_writer

RATE, BATCH, EPOCHS = 0.2, 20, 5

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    x, y, straggler = of_writer(int(context.node_config["writer"]))

    def learn(sent: Sent):
        if straggler:  # what a slow device would take
            time.sleep(float(context.node_config.get("slow", 0)))
        w, b = sent.model["w"], sent.model["b"]
        chance = np.random.default_rng(sent.dispatch)
        for _ in range(EPOCHS):
            for batch in np.split(chance.permutation(len(x)), range(BATCH, len(x), BATCH)):
                logits = x[batch] @ w + b
                odds = np.exp(logits - logits.max(1, keepdims=True))
                error = odds / odds.sum(1, keepdims=True) - np.eye(CLASSES)[y[batch]]
                w = w - RATE * x[batch].T @ error / len(batch)
                b = b - RATE * error.mean(0)
        return {"w": w, "b": b}, len(x)

    return answer(message, learn, group="straggler" if straggler else "standard")
