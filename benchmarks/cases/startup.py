"""How long it takes to begin: an import, and a process from its start to its first gradient.

These are whole programs, since a process is what is timed: d/dx of sum(3(x + 1)²), printed. `expected` is what they
print. IMPORTS are timed around the import statement, FIRST_GRADIENTS from before the process starts until it has ended.
"""

from __future__ import annotations

IMPORTS = {
    "netcl": "import netcl",
    "numpy": "import numpy",
    "pyopencl": "import pyopencl",
    "torch": "import torch",
    "ancestor": "import netcl",
}

expected = [6.0, 12.0, 18.0]

FIRST_GRADIENTS = {
    "netcl": """
from netcl import autograd as ag
x = ag.tensor([0.0, 1.0, 2.0], requires_grad=True)
with ag.Tape() as tape:
    loss = (3.0 * (x + 1.0) ** 2).sum()
tape.backward(loss)
print(x.grad.to_host().tolist())
""",
    "torch": """
import torch
x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
loss = (3.0 * (x + 1.0) ** 2).sum()
loss.backward()
print(x.grad.tolist())
""",
    "autograd": """
import autograd.numpy as np
from autograd import grad
print(grad(lambda x: np.sum(3.0 * (x + 1.0) ** 2))(np.array([0.0, 1.0, 2.0])).tolist())
""",
    "tinygrad": """
from tinygrad import Tensor
x = Tensor([0.0, 1.0, 2.0])
loss = (3.0 * (x + 1.0) ** 2).sum()
loss.backward()
print(x.grad.tolist())
""",
    "jax": """
import jax, jax.numpy as jnp
print(jax.grad(lambda x: (3.0 * (x + 1.0) ** 2).sum())(jnp.array([0.0, 1.0, 2.0])).tolist())
""",
    "ancestor": """
import numpy as np
from netcl import autograd as ag
from netcl.core.device import manager
from netcl.core.tensor import Tensor
queue = manager.default("auto").queue
x = ag.tensor(Tensor.from_host(queue, np.float32([0, 1, 2])), requires_grad=True)
with ag.Tape() as tape:
    y = x + 1.0
    loss = ag.sum(y * y * 3.0)
tape.backward(loss)
print(x.grad.to_host().tolist())
""",
    # The floor: the same numbers by two kernels, in one program, launched by hand.
    "pyopencl": '''
import numpy as np
import pyopencl as cl
platform = cl.get_platforms()[0]
context = cl.Context(platform.get_devices()[:1])
queue = cl.CommandQueue(context)
program = cl.Program(context, """
kernel void forward(global const float *x, global float *loss) { int i = get_global_id(0);
    loss[i] = 3.0f * (x[i] + 1.0f) * (x[i] + 1.0f); }
kernel void backward(global const float *x, global float *g) { int i = get_global_id(0); g[i] = 6.0f * (x[i] + 1.0f); }
""").build()
host = np.float32([0, 1, 2])
x = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
loss, g = (cl.Buffer(context, cl.mem_flags.READ_WRITE, host.nbytes) for _ in range(2))
cl.Kernel(program, "forward")(queue, (3,), (1,), x, loss)
cl.Kernel(program, "backward")(queue, (3,), (1,), x, g)
cl.enqueue_copy(queue, host, g)
print(host.tolist())
''',
}
