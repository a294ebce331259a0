"""Two real ranks: HSDP's two copies and FSDP's two shards begin with the same weights and come to the plain model's gradients."""

import json
import subprocess
import sys

from tests.integration.test_trainer_launch import DEADLINE_S, ROOT, clean_environ


def test_two_copies_and_two_shards_are_the_plain_model(tmp_path):
    command = [sys.executable, "-m", "tests.integration.replica_ranks", str(tmp_path)]
    ranks = subprocess.run(command, env=clean_environ(), cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S)
    assert ranks.returncode == 0, ranks.stderr
    told = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    for layout in ("copies", "shards"):
        for rank in told:
            assert rank[layout]["weights_equal"]
            assert rank[layout]["gradients_off"] < 1e-5 * rank["largest_gradient"]
    first, second = (rank["copies"] for rank in told)
    assert first["own_elements"] == second["own_elements"]
    assert (first["holds_first_replica"], second["holds_first_replica"]) == (True, False)
    left, right = (rank["shards"] for rank in told)
    assert left["own_elements"] + right["own_elements"] == first["own_elements"]
    assert (left["own_ffn_rows"], right["own_ffn_rows"]) == (21, 20)
    assert left["holds_first_replica"]
    assert right["holds_first_replica"]
