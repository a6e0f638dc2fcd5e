import csv

import numpy as np
import pytest

from stragglers._core.errors import BadInput
from stragglers.planning import paper_populations, population
from stragglers.planning.cifar_partition import COARSE, FINE_PER_COARSE, dirichlet_partition
from stragglers.planning.distributions import constant, lognormal

STANDARD, STRAGGLER = 0, 1
HEADER = b"client,examples,group\n"


def one_image_at_a_time(seed, clients, images_per_label):
    """The partition as it is told: renormalise, draw a coarse class, draw a label, repeat."""
    rng = np.random.default_rng(seed)
    left = np.full((COARSE, FINE_PER_COARSE), images_per_label)
    each = left.sum() // clients
    labels = []
    for _ in range(clients):
        p = rng.dirichlet([0.1] * COARSE)
        q = rng.dirichlet([10.0] * FINE_PER_COARSE, COARSE)
        for _ in range(each):
            p_left = p * (left.sum(axis=1) > 0)
            coarse = rng.choice(COARSE, p=p_left / p_left.sum())
            q_left = q[coarse] * (left[coarse] > 0)
            fine = rng.choice(FINE_PER_COARSE, p=q_left / q_left.sum())
            left[coarse, fine] -= 1
            labels.append(coarse * FINE_PER_COARSE + fine)
    return np.reshape(labels, (clients, each))


def distinct_classes(labels):
    """Coarse classes and fine labels that a client holds, on average."""
    coarse = labels // FINE_PER_COARSE
    return [np.mean([len(set(row)) for row in part.tolist()]) for part in (coarse, labels)]


def share_of_vehicles_with_stragglers(labels):
    vehicles = np.isin(labels // FINE_PER_COARSE, paper_populations.VEHICLES).sum(axis=1)
    return vehicles[paper_populations.most(vehicles, len(labels) // 4)].sum() / vehicles.sum()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_partition_deals_every_image_of_cifar100_once(seed):
    labels = dirichlet_partition(seed)
    assert labels.shape == (500, 100)
    assert np.array_equal(np.bincount(labels.ravel()), np.full(100, 500))


def test_the_partition_agrees_with_one_image_at_a_time():
    # Fewer clients of as many images each, so that labels run out as early as in the original.
    seeds, shape = range(4), dict(clients=100, images_per_label=100)
    ours = [dirichlet_partition(seed, **shape) for seed in seeds]
    naive = [one_image_at_a_time(seed, **shape) for seed in seeds]
    for statistic in (distinct_classes, share_of_vehicles_with_stragglers):
        np.testing.assert_allclose(
            np.mean([statistic(labels) for labels in ours], axis=0),
            np.mean([statistic(labels) for labels in naive], axis=0),
            rtol=0.04,
        )


def test_the_last_clients_of_the_partition_take_what_is_left():
    """Whoever comes late finds fewer labels, in the batched partition as in the naive one."""
    labels, naive = dirichlet_partition(3, 100, 100), one_image_at_a_time(3, 100, 100)
    first, last = slice(0, 20), slice(80, 100)
    for dealt in (labels, naive):
        found = [len(np.unique(dealt[part])) for part in (first, last)]
        assert found[1] < found[0]


@pytest.mark.parametrize("seed", range(4))
def test_a_class_stays_as_popular_until_its_last_image_is_gone(seed):
    coarse = dirichlet_partition(seed, clients=2)[0] // FINE_PER_COARSE
    images = np.bincount(coarse).max()
    places = [np.flatnonzero(coarse == popular) for popular in range(COARSE)]
    sold_out_first = min((place for place in places if len(place) == images), key=max)
    half, last = sold_out_first[images // 2 - 1], sold_out_first[-1]
    assert last / half == pytest.approx(2, rel=0.1)


def test_a_partition_depends_on_its_seed_alone():
    assert np.array_equal(dirichlet_partition(5), dirichlet_partition(5))
    assert not np.array_equal(dirichlet_partition(5), dirichlet_partition(6))


@pytest.mark.parametrize("seed", [0, 1])
def test_cifar100_has_125_stragglers_and_only_they_keep_vehicles(seed):
    who = paper_populations.cifar100(seed)
    assert who.clients == 500 and who.groups == ("standard", "straggler")
    assert np.sum(who.group == STRAGGLER) == 125
    assert np.all(who.examples[who.group == STRAGGLER] == 100)
    kept = who.examples[who.group == STANDARD]
    vehicles = np.isin(dirichlet_partition(seed) // FINE_PER_COARSE, paper_populations.VEHICLES)
    assert np.array_equal(kept, 100 - vehicles.sum(axis=1)[who.group == STANDARD])
    assert kept.min() < kept.max() == 100


def test_no_standard_client_holds_more_straggler_examples_than_a_straggler():
    count = np.array([3, 9, 3, 0, 3])
    assert paper_populations.most(count, 3).tolist() == [True, True, True, False, False]
    assert paper_populations.most(count, 1).tolist() == [False, True, False, False, False]


def test_cifar100_depends_on_its_partition_seed_and_says_so():
    again, other = paper_populations.cifar100(3), paper_populations.cifar100(4)
    assert np.array_equal(again.examples, paper_populations.cifar100(3).examples)
    assert not np.array_equal(again.examples, other.examples)
    assert "seed 3" in again.origin and "labels alone" in again.origin


@pytest.mark.parametrize(
    "model, standard, stragglers",
    [(paper_populations.emnist, 2_600, 800), (paper_populations.stackoverflow, 248_595, 93_882)],
)
def test_a_modelled_task_has_the_papers_clients_and_says_that_it_is_a_model(
    model, standard, stragglers
):
    who = model()
    assert np.bincount(who.group).tolist() == [standard, stragglers]
    assert who.groups == paper_populations.PAPER_GROUPS
    assert who.examples.min() >= 1
    assert "model" in who.origin


def test_stackoverflow_has_the_published_number_of_sentences():
    assert paper_populations.stackoverflow().examples.sum() == pytest.approx(135_818_730, rel=1e-3)


def test_a_fleet_has_its_groups_in_order_and_whole_sizes_of_their_distributions():
    groups = {
        "slow": (3, constant(6.6)),
        "fast": (20_000, lognormal(4, 0.5)),
        "empty": (1, constant(0)),
    }
    who = population.made_up(groups)
    assert who.groups == ("slow", "fast", "empty")
    assert who.group.tolist() == [0] * 3 + [1] * 20_000 + [2]
    assert who.examples[:3].tolist() == [7, 7, 7] and who.examples[-1] == 0
    logarithm = np.log(who.examples[who.group == 1])
    assert logarithm.mean() == pytest.approx(4, rel=0.02)
    assert logarithm.std() == pytest.approx(0.5, rel=0.02)


def test_a_fleet_depends_on_its_seed_and_a_group_on_nothing_after_it():
    one, two = (
        {"a": (50, lognormal(4, 1))},
        {"a": (50, lognormal(4, 1)), "b": (50, lognormal(4, 1))},
    )
    sizes = population.made_up(two, seed=1).examples
    assert np.array_equal(sizes, population.made_up(two, seed=1).examples)
    assert np.array_equal(sizes[:50], population.made_up(one, seed=1).examples)
    assert not np.array_equal(sizes[:50], sizes[50:])
    assert not np.array_equal(sizes, population.made_up(two, seed=2).examples)


@pytest.mark.parametrize(
    "groups, complaint",
    [
        ({}, "without groups"),
        ({"a": (0, constant(1))}, "group 'a': clients=0"),
        ({"a": (2, constant(np.inf))}, "group 'a': a client of inf examples"),
        ({"a": (2, constant(1e30))}, "group 'a': a client of 1e+30 examples"),
    ],
)
def test_an_impossible_fleet_is_one_line(groups, complaint):
    with pytest.raises(BadInput) as error:
        population.made_up(groups)
    assert complaint in str(error.value) and "\n" not in str(error.value)


def test_a_population_survives_a_csv_file(tmp_path):
    who = population.made_up({"slow, old": (5, lognormal(4, 1)), "fast": (5, lognormal(9, 1))})
    file = tmp_path / "fleet.csv"
    with file.open("w", newline="") as out:
        lines = csv.writer(out)
        lines.writerow(["client", "examples", "group"])
        names = [who.groups[group] for group in who.group]
        lines.writerows(zip(range(who.clients), who.examples.tolist(), names))
    read = population.from_csv(file)
    assert np.array_equal(read.examples, who.examples) and read.examples.dtype == np.int64
    assert np.array_equal(read.group, who.group) and read.groups == who.groups
    assert str(file) in read.origin


def test_spaces_blank_lines_and_a_byte_order_mark_do_no_harm(tmp_path):
    file = tmp_path / "fleet.csv"
    file.write_text("client, examples, group\n\n a , 12 , fast \r\nb,0,slow", encoding="utf-8-sig")
    who = population.from_csv(file)
    assert who.examples.tolist() == [12, 0] and who.groups == ("fast", "slow")


def test_tokens_are_a_fourth_column(tmp_path):
    file = tmp_path / "fleet.csv"
    file.write_text("client,examples,group,tokens\na,10,x,5\nb,30,y,12.5\n")
    who = population.from_csv(file)
    assert who.tokens.tolist() == [5, 12.5] and who.examples.tolist() == [10, 30]
    np.testing.assert_allclose(who.cost(), np.array([5, 12.5]) / (425 / 40))


def test_columns_come_in_any_order_and_others_are_passed_over(tmp_path):
    file = tmp_path / "fleet.csv"
    file.write_text("group,tokens, country ,client,examples\nx,5,,a,10\ny,12.5,Ä,b,30\n")
    who = population.from_csv(file)
    assert who.examples.tolist() == [10, 30] and who.groups == ("x", "y")
    assert who.tokens.tolist() == [5, 12.5]
    file.write_text("group,model,client,examples\nx,1,a,10\n")
    assert population.from_csv(file).tokens is None


LONG = b"client,examples,group,tokens\n"
BAD_FILES = {
    "no tokens": (LONG + b"a,1,x\n", "line 2: 'a,1,x'"),
    "tokens that are none": (LONG + b"a,1,x,5\nb,1,x,few\n", "line 3: 'b,1,x,few'"),
    "tokens without end": (LONG + b"a,1,x,inf\n", "tokens from 1e-06 to 1e+09"),
    "0 tokens": (LONG + b"a,1,x,0\n", "tokens from 1e-06 to 1e+09"),
    "missing": (None, "No such file"),
    "empty": (b"", "line 1: ''"),
    "no clients": (HEADER, "no clients"),
    "wrong header": (b"client,group,sizes\na,x,1\n", "line 1: 'client,group,sizes'"),
    "a column twice": (b"client,group,examples,group\na,x,1,y\n", "each once"),
    "tokens twice": (b"client,examples,group,tokens,tokens\na,1,x,2,2\n", "each once"),
    "other order, no client": (b"group,client,examples\nx,,1\n", "line 2: 'x,,1'"),
    "a field too few": (HEADER + b"a,1,x\nb,1\n", "line 3: 'b,1'"),
    "a field too many": (HEADER + b"a,1,x,y\n", "line 2: 'a,1,x,y'"),
    "no group": (HEADER + b"a,1,\n", "line 2: 'a,1,'"),
    "no client": (HEADER + b",1,x\n", "line 2: ',1,x'"),
    "negative": (HEADER + b"a,1,x\n\nb,-1,x\n", "line 4: 'b,-1,x'"),
    "a fraction": (HEADER + b"a,1.5,x\n", "line 2: 'a,1.5,x'"),
    "no number": (HEADER + b"a,many,x\n", "line 2: 'a,many,x'"),
    "too many examples": (HEADER + b"a,99999999999999999999,x\n", "line 2"),
    "endless number": (HEADER + b"a," + b"9" * 5000 + b",x\n", "line 2"),
    "twice the same client": (HEADER + b"a,1,x\nb,1,x\na,2,x\n", "line 4: client 'a' again"),
    "not UTF-8": (HEADER + b"a,1,x\nb,1,\xff\n", "line 3: not UTF-8"),
    "a line break in a field": (HEADER + b'"a\nb",?,x\n', "line 3: 'a\\nb,?,x'"),
    "endless field": (HEADER + b"a" * 200_000 + b",1,x\n", "line 2: field larger"),
    "a group each": (
        HEADER + b"".join(b"%d,1,%d\n" % (i, i) for i in range(40_000)),
        "40000 groups",
    ),
}


@pytest.mark.parametrize("content, complaint", BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_of_clients_is_one_line_with_file_and_line(tmp_path, content, complaint):
    file = tmp_path / "fleet.csv"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadInput) as error:
        population.from_csv(file)
    message = str(error.value)
    assert "\n" not in message and str(file) in message and complaint in message


def test_the_split_marks_the_richest_and_takes_the_classes_from_the_others():
    offsets = np.array([0, 3, 3, 5, 9])
    slow = np.array([1, 1, 0, 1, 1, 1, 0, 0, 1], bool)  # two, none, two, two
    split = paper_populations.straggler_split(slow, offsets, 2)
    assert split.straggler.tolist() == [True, False, True, False]  # a tie goes to the lower index
    assert split.keep.tolist() == [True] * 5 + [False, True, True, False]
    assert split.examples.tolist() == [3, 0, 2, 2]
    who = split.population("a test")
    assert who.group.tolist() == [1, 0, 1, 0] and who.groups == paper_populations.PAPER_GROUPS


def test_a_client_that_loses_everything_keeps_its_place():
    split = paper_populations.straggler_split(np.ones(4, bool), np.array([0, 3, 4]), 1)
    assert split.examples.tolist() == [3, 0] and split.keep.tolist() == [True] * 3 + [False]


@pytest.mark.parametrize("stragglers", [-1, 3])
def test_more_stragglers_than_clients_are_refused(stragglers):
    with pytest.raises(BadInput, match=f"stragglers={stragglers} of 2 clients"):
        paper_populations.straggler_split(np.ones(4, bool), np.array([0, 3, 4]), stragglers)


@pytest.mark.parametrize(("clients", "stragglers"), [(3400, 800), (489, 115), (34, 8), (1, 1)])
def test_as_many_stragglers_as_the_paper_has(clients, stragglers):
    assert paper_populations.share(clients, paper_populations.EMNIST_STRAGGLERS) == stragglers


def test_cifar100_with_other_straggler_classes():
    who = paper_populations.cifar100(0, stragglers=50, straggler_classes=(0,))
    coarse = dirichlet_partition(0) // FINE_PER_COARSE
    held = (coarse == 0).sum(axis=1)
    assert (who.group == STRAGGLER).sum() == 50
    np.testing.assert_array_equal(who.examples, np.where(who.group == STRAGGLER, 100, 100 - held))


def test_a_number_for_each_client_from_its_groups():
    six = population.Population(
        np.ones(6, np.int64), np.array([0, 1, 1, 0, 1, 0], np.int16), ("new", "old"), "six clients"
    )
    assert six.by_group({"old": 0.5}, 0.0).tolist() == [0, 0.5, 0.5, 0, 0.5, 0]
    assert six.by_group({"old": 0.5}, 1.0).tolist() == [1, 0.5, 0.5, 1, 0.5, 1]
    with pytest.raises(BadInput, match="no group 'odl' in six clients; did you mean 'old'"):
        six.by_group({"odl": 0.5}, 1.0)
