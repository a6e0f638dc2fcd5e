"""Mistakes in algorithms/ that the tests must notice: see mutants.py."""

from benchmarks.mutations.mutation import Mutation

MUTATIONS = [
    Mutation(
        "sign",
        "algorithms/fare_dust.py",
        "return trees.subtract(params, trees.scale(teacher_lr,",
        "return trees.add(params, trees.scale(teacher_lr,",
        "the teacher is on the other side of w",
    ),
    Mutation(
        "sign",
        "algorithms/feast.py",
        "trees.scale(kappa, trees.subtract(w_plus, opened.params))",
        "trees.scale(kappa, trees.subtract(opened.params, w_plus))",
        "a moves away from w_plus",
    ),
    # B, B_t, and whom a mean is over.
    Mutation(
        "normaliser",
        "algorithms/base.py",
        '{"weight": total.weight,',
        '{"weight": total.reports,',
        "weighted sums are divided by their count",
    ),
    Mutation(
        "normaliser",
        "algorithms/feast.py",
        "opened.optimizer, everybody)",
        "opened.optimizer, opened.on_time)",
        "w_plus is a step on the reports on time alone",
    ),
    # Averages.
    Mutation(
        "average",
        "algorithms/base.py",
        "trees.blend(decay, average, algorithm.model(inner))",
        "trees.blend(decay, algorithm.model(inner), average)",
        "the new model weighs beta",
    ),
    Mutation(
        "average",
        "algorithms/base.py",
        "return averaged(on_time, state, inner), opened",
        "return beside(inner, averaged(on_time, state, inside(state)).aside[1]), opened",
        "the model before the step is averaged",
    ),
    # Fitted to the source once: the condition was `moved_by.reports > 0` when this was written.
    Mutation(
        "average",
        "algorithms/base.py",
        "return beside(inner, trees.where(moves(moved_by), new, average))",
        "return beside(inner, new)",
        "a step on nobody moves the average",
    ),
    Mutation(
        "average",
        "algorithms/base.py",
        "return beside(inner, trees.copy(algorithm.model(inner)))",
        "return beside(inner, trees.zeros_like(algorithm.model(inner)))",
        "the average starts at zero",
    ),
    Mutation(
        "average",
        "algorithms/feast.py",
        "trees.blend(beta, mismatched, w_plus)",
        "trees.blend(beta, w_plus, mismatched)",
        "beta and 1 - beta change places",
    ),
    # Models of one training.
    Mutation(
        "models",
        "algorithms/base.py",
        "return [State(state.core, aside) for aside in state.aside]",
        "return [State(state.core, state.aside[0]) for _ in state.aside]",
        "every model has the first one's past",
    ),
    Mutation(
        "not finite",
        "algorithms/trees.py",
        "jnp.sum(jnp.square(x.astype",
        "jnp.sum(jnp.abs(x.astype",
        "1e38 is taken",
    ),
    Mutation(
        "window",
        "algorithms/fare_dust.py",
        "trees.set_row(core.history, oldest, fresh)",
        "trees.set_row(core.history, (oldest + 1) % k, fresh)",
        "the next row is emptied",
    ),
    # What a step is told of its reports.
    Mutation(
        "told",
        "algorithms/fadas.py",
        "jnp.where(tau > threshold, factor, 1)",
        "jnp.where(tau >= threshold, factor, 1)",
        "at the threshold the step shrinks",
    ),
    Mutation(
        "told",
        "algorithms/remembering.py",
        "*trees.where(moves(on_time), stepped, (w, optimizer)), after",
        "*trees.where(moves(on_time), (*stepped, after), tuple(state.core))",
        "a step of dropped reports forgets nothing",
    ),
]
