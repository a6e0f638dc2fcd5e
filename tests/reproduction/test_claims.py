from reproduction.claims import claims, judged
from reproduction.comparisons import ALL, Compared
from reproduction.rows import found
from reproduction.rows import measured as of


def test_without_results_nothing_is_tested_but_plans():
    assert {claim.verdict for claim in claims(Compared(lambda v: None))} == {"not yet tested"}
    tested = [one for one in judged(lambda v: None, {}) if one.verdicts[0] != "not yet tested"]
    assert tested and all(one.verdicts[0] == one.verdicts[1] for one in tested)
    assert all(
        "[s]" in row[0] or "by plans" in one.text.lower()
        for one in tested
        for row in one.rows
        if row[1]
    )


def test_every_comparison_is_named_once():
    """Or the paper's would be taken for another."""
    there = found()
    for claim in claims(Compared(lambda variant: of(variant, there), there)):
        names = [check.what for check in claim.checks]
        assert len({*names}) == len(names) > 0 or claim.text.startswith("StackOverflow")


def test_every_summary_observation_has_claims_and_every_claim_a_place():
    made = claims(Compared(lambda variant: None))
    assert len({claim.text for claim in made}) == len(made)
    words = {word for claim in made for word in claim.where.split(", ")}
    assert words == {*(f"summary {n}" for n in range(1, 6)), "results", "discussion", "conclusion"}


def test_what_says_most_or_generally_is_judged_so():
    words = ("most ", "mostly", "generally", "Generally")
    for claim in claims(Compared(lambda variant: None)):
        said = claim.text.partition("(Here")[0]
        stated = any(word in said for word in words) and "the most" not in said
        assert claim.most == stated, claim.text


def test_the_papers_tables_are_all_asked():
    there = found()
    one = judged(lambda variant: of(variant, there), there)[0]
    places = [row for row in one.rows if "the place of FARe-DUST" in row[0]]
    assert len(places) == len(ALL) and all(row[3] for row in places)
    assert [row[0].split(",")[0] for row in places if not row[1]] == ["StackOverflow"] * 2
