"""The table of metrics: rows that hold together, families, and what is known by them."""

from __future__ import annotations

import pytest

from sentinel.model.metrics import BY_NAME, METRICS, KnownMetric, is_known, is_state, shown_name


def test_every_metric_has_one_row() -> None:
    assert len(BY_NAME) == len(METRICS)


def test_a_row_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(AssertionError, match="single curves"):
        KnownMetric("norm/", member="LAYER", label="norms", report=True)
    with pytest.raises(AssertionError, match="room"):
        KnownMetric("norm", label="norms", short="much too long")
    with pytest.raises(AssertionError, match="behind its slash"):
        KnownMetric("norm/")
    with pytest.raises(AssertionError, match="date an onset"):
        KnownMetric("norm/", member="LAYER", onset="ratio")


@pytest.mark.parametrize("name", ["loss", "grad_share_max", "grad_norm/h.3", "activation_max/block-00", "param_norm/rank-1"])
def test_metrics_and_members_of_families_are_known(name: str) -> None:
    assert is_known(name)


@pytest.mark.parametrize("name", ["los", "loss/deep", "activation_max"])
def test_what_no_row_is_about_is_not_known(name: str) -> None:
    assert not is_known(name)


def test_people_read_a_family_as_the_protocol_writes_it() -> None:
    assert [shown_name(name) for name in ("loss", "grad_norm/", "quark/")] == ["loss", "grad_norm/LAYER", "quark/*"]


@pytest.mark.parametrize("name", ["loss", "val_loss", "param_norm/rank-3", "adam_v_max", "adam_m_norm", "update_norm/h.1"])
def test_what_the_model_is_made_of_is_state(name: str) -> None:
    assert is_state(name)


@pytest.mark.parametrize("name", ["grad_norm", "loss/auxiliary", "lr", "tokens_per_s", "anything"])
def test_what_is_measured_beside_the_model_is_not(name: str) -> None:
    assert not is_state(name)
