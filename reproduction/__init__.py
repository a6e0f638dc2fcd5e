"""The paper's tables, measured: small result files, and the pages that are made of them.

results/          trials without their weights, as `stragglers table` reads them
open_points.toml  what the paper leaves open, as settings to compare, and what came of it
class_prior.toml  the same of losses for classes that a client has no examples of
rows.py           what belongs to the reproduction, and the trials that there are of it
comparisons.py    rows against rows, and whether a difference is one
sweeps.py         the same along an open point
planned.py        what schedules say without training
verdicts.py       claims as checks, judged by our numbers and by the paper's own
claims.py         the paper's claims: algorithm_claims.py, technique_claims.py
tables.py         numbers as cells, cells as tables
costs.py          what was run, and what it took
prior.py          rows with prior-matched figures, and the claims judged by them
controls.py       controls on the glyphs; controls.json has their figures
document.py       the pages in docs/results, from *.md.j2 and all of these
picture.py        docs/results/reproduction.svg
prior_pictures.py the pictures of docs/results/straggler-accuracy.md
"""
