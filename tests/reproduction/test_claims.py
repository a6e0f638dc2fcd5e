import pytest

from reproduction.claims import Claim, claims, judged
from reproduction.comparisons import Check
from reproduction.rows import Variant, found
from tests.reproduction.test_comparisons import measured


def test_verdicts():
    yes, no, blind = (Check("", "", held) for held in (True, False, None))
    cases = ([], [yes, yes], [yes, no], [no], [blind], [yes, blind], [no, blind])
    verdicts = [Claim("", some).verdict for some in cases]
    assert verdicts == ["not yet tested", "held", "partly held", "not held", "not to be seen",
                        "partly held", "not held"]  # fmt: skip


def test_without_results_nothing_is_tested():
    assert {claim.verdict for claim in claims(lambda variant: None)} == {"not yet tested"}
    assert {claim.verdicts[:2] for claim in judged(lambda v: None)} == {("not yet tested",) * 2}


def test_every_comparison_is_named_once():
    """Or the paper's would be taken for another."""
    from reproduction.rows import measured as of

    there = found()
    for claim in claims(lambda variant: of(variant, there)):
        names = [check.what for check in claim.checks]
        assert len({*names}) == len(names) > 0


@pytest.mark.parametrize("ends, last, verdicts, agreeing", [
    (80, 95, ("not held", "held"), 0),
    (95, 80, ("held", "not held"), 2),
])  # fmt: skip
def test_a_claim_is_judged_three_times(ends, last, verdicts, agreeing):
    """By ends of curves, by last evaluations, and by published tables."""
    table = "emnist/per-domain"
    rows = {f"{table}/fedadam": measured(90, 90), f"{table}/fare-dust": measured(ends, ends)}
    row = rows[f"{table}/fare-dust"]
    rows[f"{table}/fare-dust"] = row._replace(
        straggler=row.straggler._replace(median=last), total=row.total._replace(median=last)
    )

    def numbers(variant: Variant):
        return None if variant.sets else rows.get(variant.preset)

    (claim,) = (one for one in judged(numbers) if "even above FedAdam" in one.text)
    assert claim.verdicts == (*verdicts, "held")  # 91.7 / 87.0 against 79.8 / 85.4
    assert claim.agreeing == agreeing and claim.shared == 2
    what, *cells = claim.rows[0]
    assert what == "EMNIST, per-domain, straggler: FARe-DUST, FedAdam"
    assert [cell[2:] for cell in cells] == [f"{ends}.0, 90.0", f"{last}.0, 90.0", "91.7, 79.8"]
