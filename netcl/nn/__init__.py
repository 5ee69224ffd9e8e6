"""Layers: a model is a tree of modules, and its parameters are the leaves of the graphs that it makes.

>>> import netcl as nc
>>> from netcl import autograd as ag, nn
>>> rng = nc.random.Generator(0)
>>> model = nn.Sequential(nn.Linear(2, 16, rng=rng), nn.Tanh(), nn.Linear(16, 3, rng=rng))
>>> model(ag.tensor([[0.5, -0.5]])).shape
(1, 3)
>>> [name for name, _ in model.named_parameters()]
['layers.0.weight', 'layers.0.bias', 'layers.2.weight', 'layers.2.bias']
"""

from netcl.nn.files import load_npz, save_npz
from netcl.nn.init import glorot_normal, glorot_uniform, he_normal, he_uniform, standard_normal
from netcl.nn.layers import (
    GELU,
    AvgPool2d,
    BatchNorm,
    Conv2d,
    Dropout,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    MaxPool2d,
    ReLU,
    Sequential,
    Sigmoid,
    SiLU,
    Softplus,
    Tanh,
)
from netcl.nn.module import Module

__all__ = [
    "GELU", "AvgPool2d", "BatchNorm", "Conv2d", "Dropout", "Embedding", "Flatten", "LayerNorm", "Linear", "MaxPool2d",
    "Module", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softplus", "Tanh", "glorot_normal", "glorot_uniform",
    "he_normal", "he_uniform", "load_npz", "save_npz", "standard_normal",
]  # fmt: skip
