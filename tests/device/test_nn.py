"""netcl.nn: parameters by name, states in files, layers, and a model that learns."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl import nn, optim
from netcl.device import Device
from netcl.errors import ArgumentError, DTypeError, ShapeError


class Net(nn.Module):
    """A bit of everything: modules, lists, dicts, tied weights, state that is not trained."""

    def __init__(self, rng: nc.random.Generator) -> None:
        self.first = nn.Linear(3, 4, rng=rng)
        self.blocks = [nn.Linear(4, 4, rng=rng, bias=False), nn.BatchNorm(4)]
        self.heads = {"a": nn.Linear(4, 2, rng=rng)}
        self.tied = self.first.weight
        self.scale = ag.tensor([2.0], requires_grad=True, device=rng.device)
        self.note = "not a parameter"

    def forward(self, x: Any) -> Any:
        """Return the head's answer."""
        h = self.first(x)
        for block in self.blocks:
            h = block(h)
        self.last = h  # a result that is kept is no parameter
        return self.heads["a"](h) * self.scale


NAMES = [
    "first.weight", "first.bias", "blocks.0.weight", "blocks.1.weight", "blocks.1.bias", "heads.a.weight",
    "heads.a.bias", "scale",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _on(device: Device) -> Any:
    before = nc.get_device()
    nc.use_device(device)
    yield
    nc.use_device(before)


@pytest.fixture
def rng(device: Device) -> nc.random.Generator:
    return nc.random.Generator(0, device=device)


def batch(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# Parameters and modes


def test_parameters_have_names_and_come_once(rng: nc.random.Generator) -> None:
    net = Net(rng)
    net(batch(5, 3))
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert len(net.parameters()) == len(set(net.parameters())) == len(NAMES)
    assert net.parameters()[0] is net.first.weight is net.tied
    assert set(net.state_dict()) == {*NAMES, "blocks.1.running_mean", "blocks.1.running_var"}
    assert [type(module).__name__ for module in net.modules()] == ["Net", "Linear", "Linear", "BatchNorm", "Linear"]


def test_every_parameter_gets_a_gradient_and_forgets_it(rng: nc.random.Generator) -> None:
    net = Net(rng)
    (net(batch(5, 3)) ** 2).sum().backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_train_and_eval_reach_every_module(rng: nc.random.Generator) -> None:
    net = Net(rng)
    assert net.eval() is net and not any(module.training for module in net.modules())
    assert net.train() is net and all(module.training for module in net.modules())
    net.owner = net  # type: ignore[attr-defined]
    assert len(list(net.modules())) == 5 and len(net.parameters()) == len(NAMES)  # a circle is no trap


def test_repr_says_what_is_inside(rng: nc.random.Generator) -> None:
    assert repr(nn.Linear(3, 2, rng=rng)) == "Linear(weight (3, 2), bias (2,))"
    assert (
        repr(nn.Sequential(nn.Linear(3, 2, rng=rng, bias=False), nn.ReLU()))
        == "Sequential(Linear(weight (3, 2)), ReLU())"
    )
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)


# States and files


def test_a_state_comes_back_from_a_file(rng: nc.random.Generator, tmp_path: Path) -> None:
    net, other = Net(rng), Net(rng)
    net(batch(6, 3))
    nodes = other.parameters()
    net.save(tmp_path / "net.npz")
    other.load(tmp_path / "net.npz")
    x = batch(4, 3, seed=1)
    assert (net.eval()(x).to_host() == other.eval()(x).to_host()).all()
    assert all(a is b for a, b in zip(nodes, other.parameters(), strict=True))  # an optimiser goes on with them
    assert list(np.load(tmp_path / "net.npz", allow_pickle=False)) == list(net.state_dict())


def test_a_state_is_a_copy(rng: nc.random.Generator) -> None:
    layer = nn.Linear(2, 1, rng=rng)
    state = layer.state_dict()
    before = layer.weight.to_host()
    state["weight"][:] = 7
    assert (layer.weight.to_host() == before).all()
    layer.load_state_dict(state)
    state["weight"][:] = 8
    assert (layer.weight.to_host() == 7).all()


def test_a_state_that_does_not_fit_says_why_and_changes_nothing(rng: nc.random.Generator) -> None:
    net = Net(rng)
    state = {name: array + 1 for name, array in net.state_dict().items()}
    before = net.state_dict()
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({k: v for k, v in state.items() if k != "scale"}, ArgumentError, "not one of Net: it lacks scale"),
        ({**state, "extra": state["scale"]}, ArgumentError, "it has extra, for which there is no place"),
        ({**state, "scale": np.ones(2, np.float32)}, ShapeError, r"scale has shape \(1,\), and the state has \(2,\)"),
        ({**state, "scale": np.ones(1)}, DTypeError, "scale is float32, and the state has float64"),
    ]
    for wrong, error, text in cases:
        with pytest.raises(error, match=text):
            net.load_state_dict(wrong)
    after = net.state_dict()
    assert all((before[name] == after[name]).all() for name in before)


def test_saving_leaves_the_old_file_or_the_new_one_and_nothing_else(
    rng: nc.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "net.npz"
    net = nn.Linear(2, 1, rng=rng)
    net.save(path)
    old = path.read_bytes()
    net.save(path)
    assert path.read_bytes() == old  # the same arrays, the same bytes
    assert stat.S_IMODE(path.stat().st_mode) & stat.S_IRUSR

    def crash(*_: Any, **__: Any) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(np.lib.format, "write_array", crash)
        with pytest.raises(OSError, match="disk is full"):
            net.save(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", crash)
        with pytest.raises(OSError, match="disk is full"):
            net.save(path)
    assert path.read_bytes() == old and os.listdir(tmp_path) == ["net.npz"]
    with pytest.raises(FileNotFoundError):
        net.save(tmp_path / "nowhere" / "net.npz")


@pytest.mark.skipif(os.name == "nt", reason="Windows lets only some users make symbolic links")
def test_saving_goes_through_a_link(rng: nc.random.Generator, tmp_path: Path) -> None:
    (tmp_path / "link.npz").symlink_to(tmp_path / "net.npz")
    nn.Linear(2, 1, rng=rng).save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink() and (tmp_path / "net.npz").is_file()


def test_a_damaged_file_and_a_pickle_are_refused(rng: nc.random.Generator, tmp_path: Path) -> None:
    net, path = nn.Linear(2, 1, rng=rng), tmp_path / "net.npz"
    net.save(path)
    whole = path.read_bytes()
    for wrong in (b"", whole[: len(whole) // 2], b"not a zip", whole.replace(b"NUMPY", b"NAMPY")):
        path.write_bytes(wrong)
        with pytest.raises(ArgumentError, match=r"net\.npz is damaged, or no \.npz file"):
            net.load(path)
    np.savez(path, weight=np.array([{"a": 1}], object))
    with pytest.raises(ArgumentError, match="allow_pickle"):
        net.load(path)
    with pytest.raises(FileNotFoundError):
        net.load(tmp_path / "none.npz")


def test_arrays_of_any_name_are_saved(tmp_path: Path) -> None:
    arrays = {"file": np.arange(3), "a/b": np.float64(2.5), "γ": np.zeros((0, 2)), "x.npy": np.array([True])}
    nn.save_npz(tmp_path / "x.npz", arrays)
    loaded = nn.load_npz(tmp_path / "x.npz")
    assert list(loaded) == list(arrays)
    assert all((loaded[k] == arrays[k]).all() and loaded[k].dtype == arrays[k].dtype for k in arrays)
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        assert archive.testzip() is None


# Layers


def test_layers_say_what_they_compute(rng: nc.random.Generator) -> None:
    x = batch(2, 4, 6, 6)
    conv = nn.Conv2d(4, 6, 3, rng=rng, stride=2, padding=1, groups=2)
    assert conv.weight.shape == (6, 2, 3, 3)
    out = conv(x)
    plain = ag.conv2d(x, conv.weight, 2, 1, 1, 2) + conv.bias.reshape(1, -1, 1, 1)  # type: ignore[union-attr]
    assert (out.to_host() == plain.to_host()).all() and out.shape == (2, 6, 3, 3)
    assert nn.MaxPool2d(2)(x).shape == nn.AvgPool2d(2)(x).shape == (2, 4, 3, 3)
    assert nn.Flatten()(x).shape == (2, 144) and nn.Flatten()(np.zeros((0, 2, 3), np.float32)).shape == (0, 6)
    table = nn.Embedding(5, 3, rng=rng)
    assert (table([[1, 4]]).to_host() == table.weight.to_host()[[[1, 4]]]).all()
    norm = nn.LayerNorm(6)
    np.testing.assert_allclose(norm(x).to_host().mean(-1), 0, atol=1e-6)
    with pytest.raises(ShapeError, match="4 channels and 6 filters do not divide into 4 groups"):
        nn.Conv2d(4, 6, 3, rng=rng, groups=4)


@pytest.mark.parametrize("name", ["ReLU", "Tanh", "Sigmoid", "Softplus", "GELU", "SiLU"])
def test_activations_are_the_ops_of_that_name(name: str) -> None:
    x = batch(3, 4)
    assert (getattr(nn, name)()(x).to_host() == getattr(ag, name.lower())(x).to_host()).all()


def test_batch_norm_learns_the_statistics_that_it_then_uses() -> None:
    layer = nn.BatchNorm(3, momentum=0.5)
    x = batch(10, 3, 2) * 3 + 1
    out = layer(x).to_host()
    np.testing.assert_allclose(out.mean((0, 2)), 0, atol=1e-6)
    mean, var = x.mean((0, 2)), x.var((0, 2), ddof=1)
    np.testing.assert_allclose(layer.running_mean.to_host(), 0.5 * mean, rtol=1e-5)
    np.testing.assert_allclose(layer.running_var.to_host(), 0.5 + 0.5 * var, rtol=1e-5)
    layer.eval()
    kept = layer.running_mean
    used = layer(x[:1]).to_host()
    expected = (x[:1] - 0.5 * mean[:, None]) / np.sqrt(0.5 + 0.5 * var[:, None] + 1e-5)
    np.testing.assert_allclose(used, expected, rtol=1e-4, atol=1e-5)
    assert layer.running_mean is kept
    with pytest.raises(ShapeError, match="one value per channel"):
        layer.train()(x[:1, :, 0])


def test_dropout_has_a_mask_for_every_call_and_none_in_evaluation(rng: nc.random.Generator) -> None:
    x = ag.tensor(np.ones(1000, np.float32), requires_grad=True)
    layer, twin = nn.Dropout(0.5, rng=3), nn.Dropout(0.5, rng=3)
    first, second = layer(x).to_host(), layer(x).to_host()
    assert 0.4 < (first == second).mean() < 0.6
    assert (twin(x).to_host() == first).all()
    assert layer.eval()(x) is x
    assert nn.Dropout(rng=rng).seed != nn.Dropout(rng=rng).seed


@pytest.mark.parametrize(
    ("init", "shape", "std"),
    [
        (nn.glorot_uniform, (300, 200), (2 / 500) ** 0.5),
        (nn.glorot_normal, (300, 200), (2 / 500) ** 0.5),
        (nn.he_uniform, (300, 200), (2 / 300) ** 0.5),
        (nn.he_normal, (100, 30, 3, 5), (2 / 450) ** 0.5),
        (nn.glorot_uniform, (100, 30, 3, 5), (2 / 1950) ** 0.5),
        (nn.standard_normal, (300, 200), 1.0),
    ],
)
def test_initial_weights_have_the_published_spread(rng: nc.random.Generator, init: Any, shape: Any, std: float) -> None:
    weights = init(rng, shape).to_host()
    assert weights.shape == shape and abs(weights.mean()) < 4 * std / np.sqrt(weights.size)
    assert np.isclose(weights.std(), std, rtol=0.02)
    if "uniform" in init.__name__:
        assert abs(weights).max() <= std * np.sqrt(3) * (1 + 1e-6)


def test_one_seed_gives_one_model(rng: nc.random.Generator, device: Device) -> None:
    one, two = (Net(nc.random.Generator(5, device=device)).state_dict() for _ in range(2))
    assert all((one[name] == two[name]).all() for name in one)
    layers = [nn.Linear(3, 3, rng=rng).weight.to_host() for _ in range(2)]
    assert (layers[0] != layers[1]).all()  # one generator, two draws
    with pytest.raises(ShapeError, match="at least two axes"):
        nn.glorot_uniform(rng, (3,))
    with pytest.raises(TypeError):
        nn.Linear(3, 3)  # type: ignore[call-arg]  # without a seed there are no random weights


# Learning


def moons(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two half circles, one in the other's arm, with noise: no line parts them."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    angle = rng.uniform(0, np.pi, n)
    x = np.where(labels, 1 - np.cos(angle), np.cos(angle))
    y = np.where(labels, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([x, y], 1) + rng.normal(size=(n, 2)) * 0.1
    return points.astype(np.float32), labels


def test_a_small_network_tells_two_moons_apart(rng: nc.random.Generator) -> None:
    model = nn.Sequential(nn.Linear(2, 16, rng=rng), nn.Tanh(), nn.Linear(16, 16, rng=rng), nn.Tanh(),
                          nn.Linear(16, 2, rng=rng))  # fmt: skip
    steps = 150
    optimizer = optim.AdamW(model.parameters(), lr=optim.warmup(optim.cosine(0.03, steps), 5), weight_decay=1e-3)
    x, labels = moons(200, 0)
    losses = []
    for _ in range(steps):
        order = rng.permutation(len(x)).to_host()[:100]
        optimizer.zero_grad()
        loss = ag.cross_entropy(model(x[order]), labels[order])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    unseen, truth = moons(500, 1)
    with ag.no_grad():
        accuracy = (model.eval()(unseen).to_host().argmax(1) == truth).mean()
    assert losses[0] > 0.5 and np.mean(losses[-10:]) < 0.05
    assert accuracy >= 0.99


def test_a_convolutional_network_learns_to_see_the_direction_of_stripes(rng: nc.random.Generator) -> None:
    model = nn.Sequential(nn.Conv2d(1, 4, 3, rng=rng, padding=1), nn.BatchNorm(4), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Dropout(0.1, rng=rng), nn.Linear(64, 1, rng=rng))  # fmt: skip
    draw = np.random.default_rng(0)
    stripes = np.sin(np.arange(8) * 2 + draw.uniform(0, 6, (60, 1)))[:, None, None, :] + np.zeros((1, 1, 8, 1))
    upright = np.arange(60) % 2 == 0
    x = np.where(upright[:, None, None, None], stripes, stripes.swapaxes(2, 3)) + draw.normal(size=(60, 1, 8, 8)) * 0.3
    x, targets = x.astype(np.float32), upright[:, None].astype(np.float32)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    for _ in range(30):
        optimizer.zero_grad()
        ag.binary_cross_entropy_with_logits(model(x[:40]), targets[:40]).backward()
        optimizer.step()
    with ag.no_grad():
        right = (model.eval()(x[40:]).to_host() > 0) == upright[40:, None]
    assert right.mean() >= 0.95
