import json

from sentinel.telemetry import lineage
from sentinel.telemetry.lineage import read_history, read_world_size


def pairs(readings):
    return [(reading.attempt, reading.step) for reading in readings]


def spec(world, attempt: int, step: int) -> None:
    resume = {"step": step, "path": f"checkpoints/step-{step:08d}", "digest": None}
    (world.attempt(attempt) / "spec.json").write_text(json.dumps({"attempt": attempt, "resume": resume}))


def test_the_first_attempt_has_no_past(world) -> None:
    world.start(1)
    world.steps(1, 1, 10)
    assert read_history(world.run_dir, 1, 0) == ()


def test_a_resume_sees_the_steps_of_its_parent_up_to_where_it_resumed(world) -> None:
    world.start(1)
    world.steps(1, 1, 12)
    assert pairs(read_history(world.run_dir, 2, 10, limit=4)) == [(1, 7), (1, 8), (1, 9), (1, 10)]


def test_the_abandoned_branch_is_left_out_and_the_older_one_is_reached_through_it(world) -> None:
    """1 goes to 20; 2 resumes at 10 and goes to 15; 3 resumes at 13, which only attempt 2 of the two at hand leads to."""
    world.start(1)
    world.steps(1, 1, 20)
    world.start(2, resume_step=10)
    world.steps(2, 11, 15)
    world.checkpoint(10, attempt=1)
    world.checkpoint(13, attempt=2)
    assert pairs(read_history(world.run_dir, 3, 13, limit=5)) == [(1, 9), (1, 10), (2, 11), (2, 12), (2, 13)]


def test_without_manifests_the_newest_attempt_that_reached_the_step_is_the_parent(world) -> None:
    world.start(1)
    world.steps(1, 1, 20)
    world.start(2, resume_step=10)
    world.steps(2, 11, 15)
    assert pairs(read_history(world.run_dir, 3, 13, limit=2)) == [(2, 12), (2, 13)]
    assert pairs(read_history(world.run_dir, 3, 18, limit=2)) == [(1, 17), (1, 18)]


def test_an_attempt_that_died_before_its_first_checkpoint_adds_nothing(world) -> None:
    world.start(1)
    world.steps(1, 1, 10)
    world.start(2, resume_step=10)
    world.steps(2, 11, 14)
    world.start(3, resume_step=10)
    assert pairs(read_history(world.run_dir, 4, 10, limit=2)) == [(1, 9), (1, 10)]


def test_the_manifest_decides_between_two_attempts_that_reached_the_step(world) -> None:
    world.start(1)
    world.steps(1, 1, 20)
    world.start(2, resume_step=5)
    world.steps(2, 6, 20)
    world.checkpoint(12, attempt=1)
    assert pairs(read_history(world.run_dir, 3, 12, limit=1)) == [(1, 12)]


def test_a_stream_without_a_receipt_is_placed_by_its_spec(world) -> None:
    world.start(1)
    world.steps(1, 1, 10)
    world.steps(2, 11, 14)
    spec(world, 2, 10)
    assert pairs(read_history(world.run_dir, 3, 12, limit=3)) == [(1, 10), (2, 11), (2, 12)]


def test_a_trainer_that_logs_every_fifth_step_may_end_just_short_of_its_checkpoint(world) -> None:
    world.start(1)
    world.write(1, *({"step": step, "loss": 1.0} for step in range(5, 51, 5)))
    assert pairs(read_history(world.run_dir, 2, 52, limit=2)) == [(1, 45), (1, 50)]


def test_missing_and_damaged_parents_make_the_history_shorter(world) -> None:
    world.stream(1).write_bytes(b"\0garbage\xff\n" * 100)
    world.start(2, resume_step=10)
    world.write(2, {"step": 11}, b"torn {\n", {"step": 12}, b'{"step":13,"lo')
    assert pairs(read_history(world.run_dir, 3, 12)) == [(2, 11), (2, 12)]
    world.stream(2).unlink()
    assert read_history(world.run_dir, 3, 12) == ()
    assert read_history(world.run_dir / "nowhere", 3, 12) == ()


def test_steps_written_twice_are_taken_once_and_the_later_line_wins(world) -> None:
    world.start(1)
    world.steps(1, 1, 5)
    world.write(1, {"step": 4, "loss": 9.0}, {"step": 5, "loss": 9.5}, {"step": 6, "loss": 9.6})
    history = read_history(world.run_dir, 2, 6)
    assert pairs(history) == [(1, step) for step in range(1, 7)]
    assert [reading.metrics["loss"] for reading in history[-3:]] == [9.0, 9.5, 9.6]


def test_small_blocks_give_the_same_history(world, monkeypatch) -> None:
    world.start(1)
    world.steps(1, 1, 300)
    whole = read_history(world.run_dir, 2, 250, limit=100)
    monkeypatch.setattr(lineage, "BLOCK_BYTES", 37)
    assert read_history(world.run_dir, 2, 250, limit=100) == whole
    assert pairs(whole) == [(1, step) for step in range(151, 251)]


def test_the_work_is_bounded_by_bytes(world, monkeypatch) -> None:
    world.start(1)
    world.steps(1, 1, 1000)
    monkeypatch.setattr(lineage, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(lineage, "BYTES_MAX", 5000)
    assert 0 < len(read_history(world.run_dir, 2, 1000)) < 200


def test_manifests_that_point_in_a_circle_end(world) -> None:
    for attempt in range(1, 30):
        world.start(attempt, resume_step=5)
        world.steps(attempt, 6, 8)
    world.checkpoint(5, attempt=29)
    assert pairs(read_history(world.run_dir, 29, 8)) == [(28, 6), (28, 7), (28, 8)]


def test_the_world_size_of_a_past_is_known_where_all_of_it_agrees(world) -> None:
    for attempt, size in ((1, 8), (2, 8), (3, 4)):
        world.start(attempt)
        path = world.attempt(attempt) / "metrics.jsonl"
        first, *rest = path.read_text().splitlines(keepends=True)
        path.write_text(json.dumps(json.loads(first) | {"world_size": size}) + "\n" + "".join(rest))
    assert read_world_size(world.run_dir, (1, 2)) == 8
    assert read_world_size(world.run_dir, (2, 3)) is None
    assert read_world_size(world.run_dir, (1, 7)) is None
    assert read_world_size(world.run_dir, ()) is None
