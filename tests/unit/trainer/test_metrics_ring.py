"""The ring: order, no waiting, waiting when it is full, and errors that come to the loop. The device is a double whose clock and
progress the test decides."""

import threading

import pytest
import torch

from trainer.metrics_ring import MetricsRing

CPU = torch.device("cpu")
DEADLINE_S = 20.0
DEPTH = 3


class Device:
    """Work is done when the test says so: every mark recorded before that many `allow`s is passed."""

    def __init__(self):
        self.recorded = 0
        self.passed = threading.Semaphore(0)
        self.waited = []  # by which thread
        self.on_record = lambda: None

    def mark(self):
        return Mark(self)


class Mark:
    def __init__(self, device):
        self.device = device
        self.at = 0

    def record(self):
        self.device.recorded += 1
        self.at = self.device.recorded
        self.device.on_record()

    def synchronize(self):
        assert self.device.passed.acquire(timeout=DEADLINE_S)
        self.device.waited.append(threading.current_thread().name)

    def elapsed_time(self, end):
        return 1000.0 * (end.at - self.at)


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def ring(device):
    ring = MetricsRing(CPU, DEPTH, device.mark)
    yield ring
    device.passed.release(100)
    ring.abandon()


def train(ring, step, received):
    ring.begin()
    ring.fill(torch.tensor([float(step)], dtype=torch.float64))
    ring.send(lambda numbers, seconds: received.append((*numbers, seconds)))


def test_the_loop_runs_ahead_of_a_device_and_what_it_tells_comes_in_order(ring, device):
    received = []
    for step in range(DEPTH):
        train(ring, step, received)
        ring.post(lambda step=step: received.append(f"event {step}"))
    assert received == []
    device.passed.release(DEPTH)
    ring.drain()
    assert received == [(0.0, 1.0), "event 0", (1.0, 1.0), "event 1", (2.0, 1.0), "event 2"]
    assert set(device.waited) == {"telemetry"}


def test_it_waits_only_when_the_ring_is_full_and_no_longer_than_for_one_step(ring, device):
    received, known_at = [], []  # how many steps were told when a mark was recorded
    device.on_record = lambda: known_at.append(len(received))
    for step in range(DEPTH):
        train(ring, step, received)
    assert known_at == [0, 0] * DEPTH, "no mark was waited for"
    releaser = threading.Thread(target=device.passed.release, daemon=True)
    releaser.start()
    train(ring, DEPTH, received)
    assert known_at[2 * DEPTH :] == [1, 1], "the step that found no room began when the first was told, and waited for no other"
    assert ring.lag == DEPTH
    device.passed.release(DEPTH)
    ring.drain()
    assert [row[0] for row in received] == [0.0, 1.0, 2.0, 3.0]


def test_numbers_of_a_slot_are_not_those_of_the_step_that_takes_it_next(ring, device):
    received = []
    device.passed.release(100)
    for step in range(4 * DEPTH):
        train(ring, step, received)
    ring.drain()
    assert [row[0] for row in received] == [float(step) for step in range(4 * DEPTH)]


def test_an_error_of_the_thread_is_raised_in_the_loop_and_nothing_is_told_after_it(ring, device):
    received = []
    device.passed.release(100)

    def full(numbers, seconds):
        raise OSError(28, "No space left on device")

    ring.begin()
    ring.fill(torch.zeros(1, dtype=torch.float64))
    ring.send(full)
    with pytest.raises(OSError, match="No space"):
        ring.drain()
    for call in (ring.begin, ring.drain, ring.close, lambda: ring.post(lambda: received.append("late"))):
        with pytest.raises(OSError, match="No space"):
            call()
    assert received == []


def test_a_full_ring_whose_thread_has_failed_does_not_wait_for_ever(ring, device):
    def full(numbers, seconds):
        raise OSError(28, "No space left on device")

    for _ in range(DEPTH):
        ring.begin()
        ring.fill(torch.zeros(1, dtype=torch.float64))
        ring.send(full)
    device.passed.release(1)
    with pytest.raises(OSError, match="No space"):
        ring.begin()


def test_whoever_leaves_in_an_error_waits_for_a_device_that_hangs_only_a_moment(device, monkeypatch):
    monkeypatch.setattr("trainer.metrics_ring.CLOSE_TIMEOUT_S", 0.01)
    ring, received = MetricsRing(CPU, DEPTH, device.mark), []
    device.passed.release(1)
    train(ring, 0, received)
    ring.drain()
    train(ring, 1, received)
    ring.abandon()
    ring.abandon()
    assert received == [(0.0, 1.0)]
    device.passed.release(1)


def test_on_a_cpu_everything_is_told_at_once_and_by_the_loop_itself():
    ring, received = MetricsRing(CPU), []
    before = set(threading.enumerate())
    for step in range(3):
        train(ring, step, received)
        assert len(received) == step + 1
    ring.post(lambda: received.append(threading.current_thread() is threading.main_thread()))
    assert received[-1] is True
    assert ring.lag == 0
    assert set(threading.enumerate()) <= before, "it has begun a thread"
    assert all(seconds >= 0 for _, seconds in received[:3])
    ring.close()


def test_on_a_cpu_an_error_of_telling_is_raised_where_it_was_told():
    ring = MetricsRing(CPU)

    def full():
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        ring.post(full)
    with pytest.raises(OSError, match="No space"):
        ring.drain()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu_nothing_of_it_waits_for_the_device():
    ring, received = MetricsRing(torch.device("cuda", 0)), []
    work = torch.randn(2048, 2048, device="cuda")
    (work @ work).sum()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(3 * ring.lag):
            ring.begin()
            values = (work @ work).sum().double().reshape(1) * 0 + step
            ring.fill(values)
            ring.send(lambda numbers, seconds: received.append((*numbers, seconds)))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    ring.close()
    assert [row[0] for row in received] == [float(step) for step in range(3 * ring.lag)]
    assert all(seconds > 0 for _, seconds in received)
