"""The policy that a run is supervised by, as its run.json names it."""

from __future__ import annotations

from pathlib import Path

from sentinel.errors import SentinelError
from sentinel.journal.run_file import find_run_file
from sentinel.policy.schema import Policy
from sentinel.policy_files.loading import load_policy, shipped_policy_path


def read_check_timeout(run_dir: Path) -> float:
    """Seconds that a check of a node may take under the run's policy; 0 where it has none, or cannot be read."""
    policy, _ = read_policy(run_dir)
    check = policy.spec.node_check if policy is not None else None
    return 0.0 if check is None else check.timeout_s


def read_policy(run_dir: Path) -> tuple[Policy | None, str]:
    """None, and why, where it cannot be read."""
    try:
        run = find_run_file(run_dir)
        if run is None:
            return None, "there is no run.json, which names the policy"
        path = Path(run.policy.path)
        return load_policy(path if path.exists() else shipped_policy_path(run.policy.name)), ""
    except SentinelError as error:
        return None, f"the run's policy cannot be read: {error.message.splitlines()[0]}"
