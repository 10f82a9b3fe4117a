"""karat reproduce, the command."""

import json

from cli.conftest import command


def test_tables_without_data_or_network(tmp_path):
    """One line says what is missing, once; the exit code is 0, for nothing failed."""
    env = {"KARAT_DATA": "", "SCIKIT_LEARN_DATA": str(tmp_path / "cache")}
    result = command("reproduce", "--only", "table1,table2", "--quick", "--offline", "-o", tmp_path / "out", env=env)
    assert result.code == 0, result.err
    assert result.err.splitlines() == ["table1 (1 of 2)", "table2 (2 of 2)"]
    text = " ".join(result.out.split())
    assert text.count("Glass is left out") == 1
    assert "table2" in text
    assert "2 parts left out" in text
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "index.html", "table1_rmse.csv", "table1_sizes.csv", "table2_losses.csv", "table2_sizes.csv",
    }  # fmt: skip


def test_one_json_document(tmp_path):
    result = command("reproduce", "--only", "lda", "--quick", "--json", "-o", tmp_path)
    document = json.loads(result.out)
    assert result.code == 0
    assert document["page"] == str(tmp_path / "index.html")
    (lda,) = document["experiments"]
    assert (lda["name"], lda["error"], lda["left_out"]) == ("lda", None, [])
    assert all((tmp_path / name).exists() for name in [*lda["tables"], *lda["figures"]])


def test_an_unknown_experiment_and_a_file_for_a_folder(tmp_path):
    wrong = command("reproduce", "--only", "table9", "-o", tmp_path)
    assert wrong.code == 2
    assert "There is no experiment table9" in wrong.err
    (tmp_path / "file").write_text("")
    wrong = command("reproduce", "-o", tmp_path / "file")
    assert wrong.code == 2
    assert "is a file; --output names a folder." in wrong.err
