from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from unionsnn.base.errors import DamagedFileError, DataError
from unionsnn.data.splits import (
    Split,
    check_split,
    load_splits,
    random_holdout,
    read_index_files,
    save_splits,
    split_hash,
    stratified_holdout,
    stratified_k_fold,
)

CHECKOUT = Path(__file__).parents[2]
MIRROR = Path(os.environ.get("UNIONSNN_TEST_MIRROR") or CHECKOUT.parent / "shared" / "data")


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def make(train: list[int], validation: list[int], test: list[int]) -> Split:
    return Split(*(np.array(part, dtype=np.int64) for part in (train, validation, test)))


def labels(*counts: int) -> NDArray[np.int64]:
    """Classes 0, 1, ... with the given numbers of members, mixed up."""
    return rng(1).permutation(np.repeat(np.arange(len(counts)), counts))


def assert_shares(y: NDArray[np.int64], part: NDArray[np.int64], share: float, within: int) -> None:
    counts = np.bincount(y, minlength=y.max() + 1)
    in_part = np.bincount(y[part], minlength=y.max() + 1)
    assert (np.abs(in_part - share * counts) < within).all()


class_counts = st.lists(st.integers(10, 40), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(class_counts, st.integers(3, 10), st.integers(0, 99))
def test_k_folds_partition_test_once_and_are_stratified(
    counts: list[int], folds: int, seed: int
) -> None:
    y = labels(*counts)
    splits = stratified_k_fold(y, folds, generator=rng(seed))
    assert len(splits) == folds
    for split in splits:
        check_split(split, len(y))
        assert_shares(y, split.test, 1 / folds, within=1)
        assert_shares(y, split.validation, 1 / folds, within=2)
    tested = np.concatenate([split.test for split in splits])
    np.testing.assert_array_equal(np.sort(tested), np.arange(len(y)))
    sizes = [len(split.test) for split in splits] + [len(split.validation) for split in splits]
    assert max(sizes) - min(sizes) <= 1


def test_ten_folds_are_eight_to_one_to_one() -> None:
    for split in stratified_k_fold(labels(100, 100, 100, 100, 100, 100), 10, generator=rng()):
        assert [len(part) for part in split.parts().values()] == [480, 60, 60]
        assert np.bincount(labels(*[100] * 6)[split.test]).tolist() == [10] * 6


def test_splits_depend_on_the_generator_alone() -> None:
    y = labels(30, 50)
    for draw in (
        lambda generator: stratified_k_fold(y, 5, generator=generator),
        lambda generator: [stratified_holdout(y, generator=generator)],
        lambda generator: [random_holdout(80, generator=generator)],
    ):
        assert split_hash(draw(rng(3))) == split_hash(draw(rng(3)))
        assert split_hash(draw(rng(3))) != split_hash(draw(rng(4)))


@pytest.mark.parametrize(
    ("y", "folds", "message"),
    [
        (labels(20, 20), 2, r"protocol.folds=2 leaves no items .* type protocol.folds=3 or more"),
        (labels(1, 1), 10, r"more than the 2 graphs: .* add graphs to the set"),
        (labels(20, 20), 41, r"protocol.folds=41 is more than the 40 graphs: type .*folds=40"),
        (labels(20, 7), 10, r"class 1 has only 7 graphs, .* type protocol.folds=7 or less"),
        (labels(20, 2), 10, r"class 1 has only 2 graphs, .* type protocol=holdout"),
        (labels(20), 5, r"all 20 graphs are of one class"),
        (np.array([0.5, 1.5]), 3, "one class number per graph.*or link_prediction"),
        (np.zeros((4, 2), dtype=np.int64), 3, "one class number per graph"),
    ],
)
def test_wrong_requests_for_folds_say_what_to_type(
    y: NDArray[np.int64], folds: int, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        stratified_k_fold(y, folds, generator=rng())


@settings(max_examples=60, deadline=None)
@given(class_counts)
def test_holdout_is_a_stratified_partition(counts: list[int]) -> None:
    y = labels(*counts)
    split = stratified_holdout(y, generator=rng())
    check_split(split, len(y))
    assert len(split.validation) == len(split.test) == round(0.1 * len(y))
    for part, within in zip(split.parts().values(), (2, 2, 1), strict=True):
        # Rounding the part itself to a whole number takes up to half an item more.
        assert_shares(y, part, len(part) / len(y), within)


def test_random_holdout_is_a_partition() -> None:
    split = random_holdout(57, generator=rng())
    check_split(split, 57)
    assert [len(part) for part in split.parts().values()] == [45, 6, 6]


def test_too_few_items_for_a_holdout_are_refused() -> None:
    with pytest.raises(DataError, match="4 items are too few for parts of"):
        random_holdout(4, generator=rng())
    with pytest.raises(DataError, match="all 30 graphs are of one class"):
        stratified_holdout(labels(30), generator=rng())


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (make([0, 1, 2], [2, 3], [4, 5]), r"split: train and validation overlap in 1 item\(s\): 2"),
        (make([0, 1], [2, 3], [4, 5, 0, 1]), r"train and test overlap in 2 item\(s\): 0, 1"),
        (make([0, 1], [2, 3], [4, 3, 5]), r"validation and test overlap in 1 item\(s\): 3"),
        (make([0, 1, 1], [2, 3], [4, 5]), r"train has 1 item\(s\) more than once: 1"),
        (make([0, 1], [2, 3], [4, 6]), r"test has 1 item\(s\) outside 0..5: 6"),
        (make([-1, 1], [2, 3], [4, 5]), r"train has 1 item\(s\) outside 0..5: -1"),
        (make([0, 1], [2], [4]), r"2 of 6 items are in no part: 3, 5"),
        (make([0, 1], [], [4]), r"the validation part is empty"),
        (Split(np.arange(2.0), np.arange(2), np.arange(2)), "train must be a flat int64 array"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_split_is_named_with_examples(split: Split, message: str) -> None:
    with pytest.raises(DataError, match=message):
        check_split(split, 6)


def test_a_split_need_not_cover_where_that_is_said() -> None:
    check_split(make([0], [5], [3]), 6, cover=False)
    with pytest.raises(DataError, match=r"997 of 1000 items are in no part: 1, 2, 4, 6, 7, \.\.\."):
        check_split(make([0], [5], [3]), 1000)


def test_splits_survive_saving(tmp_path: Path) -> None:
    splits = stratified_k_fold(labels(20, 30), 5, generator=rng())
    path = tmp_path / "new" / "splits.json"
    checksum = save_splits(path, splits, 50)
    loaded = load_splits(path, 50)
    assert split_hash(loaded) == split_hash(splits) == checksum
    assert split_hash(load_splits(path)) == checksum
    partial = [make([0], [5], [3])]
    save_splits(path, partial, 50, cover=False)
    assert split_hash(load_splits(path)) == split_hash(partial)


def test_the_hash_knows_parts_and_order() -> None:
    first, second = make([0, 1], [2], [3]), make([0], [1, 2], [3])
    hashes = [[first], [second], [first, second], [second, first], [make([1, 0], [2], [3])]]
    assert len({split_hash(splits) for splits in hashes}) == 5


def test_a_wrong_split_is_not_saved(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    good = make([0], [1], [2])
    with pytest.raises(DataError, match="split 1: train and test overlap"):
        save_splits(path, [good, make([0, 1], [2], [0])], 3)
    assert list(tmp_path.iterdir()) == []
    save_splits(path, [good], 3)
    assert len(load_splits(path, 3)) == 1


def test_damaged_and_foreign_split_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "splits.json"
    with pytest.raises(FileNotFoundError):
        load_splits(path)
    save_splits(path, [make([0], [1], [2])], 3)
    with pytest.raises(DataError, match="splits 3 items, but the data set has 4"):
        load_splits(path, 4)
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(DamagedFileError, match="does not hold splits"):
        load_splits(path)
    content = json.loads(text)
    content["splits"][0]["train"], content["splits"][0]["test"] = [2], [0]
    path.write_text(json.dumps(content))
    with pytest.raises(DamagedFileError, match="its splits were altered"):
        load_splits(path)
    path.write_text("[]")
    with pytest.raises(DamagedFileError, match="does not hold splits"):
        load_splits(path)


def write_index(folder: Path, name: str = "SET", **parts: str) -> None:
    folder.mkdir(exist_ok=True)
    content = {"train": "0,1,2\n5,4,3\n", "val": "3\n1\n", "test": "4,5\n0,2\n"} | parts
    for part, text in content.items():
        (folder / f"{name}_{part}.index").write_text(text)


def test_index_files_are_read(tmp_path: Path) -> None:
    write_index(tmp_path)
    first, second = read_index_files(tmp_path, "SET", 6)
    assert first.test.tolist() == [4, 5]
    assert second.train.tolist() == [3, 4, 5]


def test_proteins_may_take_the_files_of_proteins_full(tmp_path: Path) -> None:
    write_index(tmp_path, "PROTEINS_full")
    assert len(read_index_files(tmp_path, "PROTEINS", 6)) == 2
    with pytest.raises(DataError, match=r"DD_train.index is missing"):
        read_index_files(tmp_path, "DD", 6)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"val": "3\n5\n"},
            r"SET_\{train,val,test\}.index, fold 1 .* train and validation overlap",
        ),
        ({"val": "3\n0\n"}, r"fold 1 \(line 2\): validation and test overlap in 1 item\(s\): 0"),
        ({"train": "0,1\n5,4,3\n"}, r"fold 0 \(line 1\): 1 of 6 items are in no part: 2"),
        ({"val": "3\n"}, r"differ in their folds \(SET_train.index 2, SET_val.index 1, SET_test"),
        ({"test": "4,5\n0,-2\n"}, r"SET_test.index, fold 1 \(line 2\): .* -2 is negative"),
        (
            {"test": "4,5\n0,2.0\n"},
            r"SET_test.index, fold 1 \(line 2\): every item must be a",
        ),
        (
            {"test": "4,5\n\n0,2\n"},
            r"SET_test.index, fold 1 \(line 2\): every item must be a",
        ),
        ({"test": "4,5\n0,2,99999999999999999999\n"}, r"SET_test.index, fold 1"),
        ({"test": "4,5\n0,2,é\n"}, r"SET_test.index is not a text file of comma-separated numbers"),
        ({"test": "4,5,6\n0,2\n"}, r"fold 0 .* test has 1 item\(s\) outside 0..5: 6"),
    ],
)
def test_wrong_index_files_are_named_by_file_and_fold(
    tmp_path: Path, parts: dict[str, str], message: str
) -> None:
    write_index(tmp_path, **parts)
    with pytest.raises(DataError, match=message):
        read_index_files(tmp_path, "SET", 6)
    write_index(tmp_path)
    assert len(read_index_files(tmp_path, "SET", 6)) == 2


@pytest.mark.parametrize(
    ("folder", "name", "num_items", "num_train"),
    [
        ("benchmarking-gnns/TUs", "DD", 1178, {941, 942, 943}),
        ("benchmarking-gnns/TUs", "ENZYMES", 600, {480}),
        ("benchmarking-gnns/TUs", "PROTEINS", 1113, {889, 890}),
        ("UnionSNN", "MUTAG", 188, {150, 151}),
    ],
)
def test_published_splits_are_read(
    folder: str, name: str, num_items: int, num_train: set[int]
) -> None:
    if not (MIRROR / "splits" / folder).is_dir():
        pytest.skip(f"{MIRROR} has no splits/{folder}; name a mirror with UNIONSNN_TEST_MIRROR")
    splits = read_index_files(MIRROR / "splits" / folder, name, num_items)
    assert len(splits) == 10
    assert {len(split.train) for split in splits} == num_train
    tested = np.concatenate([split.test for split in splits])
    np.testing.assert_array_equal(np.unique(tested), np.arange(num_items))
