"""The paper's tables, measured: small result files, and the document that is made of them.

results/          trials without their weights, as `stragglers table` reads them
open_points.toml  what the paper leaves open, as settings to compare
rows.py           what belongs to the reproduction, and the trials that there are of it
claims.py         the paper's claims as comparisons of numbers
document.py       docs/reproduction.md from template.md and numbers
picture.py        docs/reproduction.svg
"""
