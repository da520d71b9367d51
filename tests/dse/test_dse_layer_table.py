"""Layer tables: what is read, and one sentence for everything that cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest

from dse import DesignError, load_layer_table, parse_layer_table
from models import Kind

GOOD: dict[str, Any] = {
    "model": "net",
    "layers": [
        {"name": "conv", "R": 16, "P": 9, "C": 8, "kind": "conv", "kh": 3},
        {"name": "pool", "R": 4, "P": 4, "C": 8, "kind": "max_pool"},
        {"name": "fc", "R": 1, "P": 32, "C": 4, "stage": 1, "groups": 2, "residual": True},
    ],
    "exits": ["early", "final"],
    "exit_rates": [0.25, 0.75],
}


def test_a_table_with_everything() -> None:
    work = parse_layer_table(json.dumps(GOOD))
    assert [layer.kind for layer in work.layers] == [Kind.GEMM, Kind.MAX_POOL, Kind.GEMM]
    assert work.exits == ("early", "final")
    assert work.exit_rates == (0.25, 0.75)
    assert work.macs == 16 * 9 * 8 + 2 * 32 * 4
    assert work.layers[2].residual


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "must be JSON"),
        ("[" * 100_000, "must be JSON"),
        ("[]", "non-empty list 'layers'"),
        ('{"layers": []}', "non-empty list 'layers'"),
        ('{"layers": [3]}', "layer 0 of table .* must be an object"),
        ('{"layers": [{"name": "a", "R": 1, "P": 2}]}', "'a'.*lacks C"),
        ('{"layers": [{"name": "a", "R": 0, "P": 2, "C": 3}]}', "whole r of at least 1, not 0"),
        ('{"layers": [{"name": "a", "R": 1, "P": 2, "C": "x"}]}', "whole c"),
        ('{"layers": [{"name": "a", "R": 1, "P": 2, "C": 3, "stage": 5}]}', "stages 0..0"),
        ('{"layers": [{"name": "a", "R": 1, "P": 2, "C": 3, "stage": "x"}]}', "stage must be"),
        ('{"layers": [{"name": "a", "R": 1' + "0" * 9999 + ', "P": 2, "C": 3}]}', "must be JSON"),
        ('{"layers": [{"R": 1, "P": 2, "C": 3}], "exits": "final"}', "list of names"),
        ('{"layers": [{"R": 1, "P": 2, "C": 3}], "exit_rates": [0.5]}', "sum to 1"),
        ('{"layers": [{"R": 1, "P": 2, "C": 3}], "exit_rates": 1}', "sum to 1"),
    ],
)
def test_broken_tables_end_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(DesignError, match=says) as caught:
        parse_layer_table(text, source="mine.json")
    assert "mine.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_layers() -> None:
    rows = [{"R": 1, "P": 1, "C": 1}] * 10_001
    with pytest.raises(DesignError, match="at most 10000"):
        parse_layer_table(json.dumps({"layers": rows}))


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(DesignError, match="readable"):
        load_layer_table(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(DesignError, match="readable"):
        load_layer_table(tmp_path / "binary.json")
