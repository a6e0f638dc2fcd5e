"""Supervised losses for clients whose labels are skewed: some classes are absent, others rare.

    loss = cross-entropy(a * z + b, y)       z: logits; a and b: one number for each class

    n_c    the client's own examples of class c; n their sum
    N_c    the examples of class c of all clients; N their sum

    kind      a                    b
    damped    1                    log alpha where n_c = 0        restricted softmax if alpha = 0
    scaled    alpha where n_c = 0  0                              FedRS (1)
    adjusted  1                    tau * log(n_c / n + smoothing) logit adjustment (2), ReBaFL (3)
    margin    1                    -tau * n_c^(-1/4)              FedLC (4)
    balanced  1                    log(N_c / N)                   balanced softmax (5)

(1) Li and Zhan, KDD 2021. They scale the weights of a last layer without bias, we the logit.
(2) Menon et al., ICLR 2021, with the client's own label shares. (3) Xu et al., 2023: tau = 1 and
smoothing = 0.01. (4) Zhang et al., ICML 2022; a softmax over all classes, as in published code.
(5) Ren et al., NeurIPS 2020.

b = -inf removes a class from the softmax. It is the limit of these formulas, and their value, where
n_c = 0: damped with alpha = 0, adjusted with smoothing = 0, and margin; balanced where N_c = 0.
Distillation, the proximal term and the evaluation see z itself.

n_c has 16 bits and saturates at 65,535. Eight bits would saturate at 255, and clients have more
examples of a class; beyond 65,535 the margin is less than tau / 16 anyway.

Example:
    >>> import stragglers as st
    >>> local = st.Local(0.05, 20, label_skew=st.label_skew.Adjusted(tau=0.5))
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from stragglers._core.errors import BadInput

MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True)
class Damped:
    alpha: float


@dataclass(frozen=True)
class Scaled:
    alpha: float


@dataclass(frozen=True)
class Adjusted:
    tau: float = 1.0
    smoothing: float = 0.01


@dataclass(frozen=True)
class Margin:
    tau: float = 1.0


@dataclass(frozen=True)
class Balanced:
    """Needs the labels of all clients: for simulations alone."""


LabelSkew: TypeAlias = Damped | Scaled | Adjusted | Margin | Balanced
KINDS: dict[str, type[LabelSkew]] = {
    "damped": Damped,
    "scaled": Scaled,
    "adjusted": Adjusted,
    "margin": Margin,
    "balanced": Balanced,
}


def check(given: LabelSkew | None) -> None:
    """Refuses numbers outside their range; settings.py has the same ranges."""
    for name, most in (("alpha", 1.0), ("tau", math.inf), ("smoothing", 1.0)):
        value = getattr(given, name, 0.0)
        if not (0 <= value <= most and value < math.inf):
            expected = "from 0 to 1" if most == 1 else "of at least 0"
            raise BadInput(
                f"label_skew.{name} = {value}: out of range. Give a finite number {expected}."
            )


def acting(given: LabelSkew | None) -> LabelSkew | None:
    """None if the loss is the plain one: alpha = 1 and tau = 0 change nothing, to the bit."""
    match given:
        case Damped(alpha=1) | Scaled(alpha=1) | Adjusted(tau=0) | Margin(tau=0):
            return None
    return given


def terms(given: LabelSkew, counts: Any, examples: Any, xp: Any = np) -> tuple[Any, Any]:
    """The factor a and the addend b of each class's logit; None instead of all ones, or zeros.

    Args:
        given: an acting loss.
        counts: n_c, or N_c for `Balanced`: [classes], whole numbers.
        examples: n, the client's number of examples.
        xp: numpy, or jax.numpy inside a compiled program.

    >>> terms(Damped(alpha=0.5), np.array([3, 0, 1]), 4)
    (None, array([ 0.        , -0.69314718,  0.        ]))
    """
    n = xp.maximum(counts, 1).astype(float)  # of classes that are there
    absent = counts == 0
    match given:
        case Damped(alpha):
            return None, xp.where(absent, _log(alpha), 0.0)
        case Scaled(alpha):
            return xp.where(absent, alpha, 1.0), None
        case Adjusted(tau, smoothing):
            there = xp.log(n / xp.maximum(examples, 1) + smoothing)
            return None, tau * xp.where(absent, _log(smoothing), there)
        case Margin(tau):
            return None, xp.where(absent, -math.inf, -tau * n**-0.25)
        case Balanced():
            return None, xp.where(absent, -math.inf, xp.log(n / counts.sum()))


def label_counts(
    labels: NDArray[Any], offsets: NDArray[np.integer], classes: int
) -> NDArray[np.uint16]:
    """n_c of each client: [clients, classes]; client i has labels[offsets[i] : offsets[i + 1]]."""
    check_labels(labels, classes)
    clients = len(offsets) - 1
    who = np.repeat(np.arange(clients), np.diff(offsets))
    counts = np.bincount(who * classes + labels, minlength=clients * classes)
    return np.minimum(counts, MOST).astype(np.uint16).reshape(clients, classes)


def global_counts(labels: NDArray[Any], classes: int) -> NDArray[np.int32]:
    """N_c: [classes]."""
    check_labels(labels, classes)
    return np.bincount(labels, minlength=classes).astype(np.int32)


def check_labels(labels: NDArray[Any], classes: int) -> None:
    """Refuses examples that have no class of their own, such as sentences."""
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise BadInput(
            "client.label_skew: the examples of this task have no class each. Leave it out."
        )
    if labels.size and not 0 <= labels.min() <= labels.max() < classes:
        raise BadInput(
            f"client.label_skew: labels from {labels.min()} to {labels.max()}, but the model has "
            f"{classes} classes. Number the labels from 0."
        )


def _log(value: float) -> float:
    return math.log(value) if value else -math.inf
