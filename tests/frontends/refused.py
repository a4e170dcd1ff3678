"""Models that are refused, of every sort: what the message says is looked at in ``test_words``."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.export import Dim

X = torch.randn(4, 8)
OPEN = ({0: Dim("rows", max=16)},)
MODELS: dict[str, tuple[type[nn.Module], tuple[torch.Tensor, ...], object]] = {}


def refused(*inputs, shapes=None):
    """Return a decorator that makes a function the forward method of a model that is refused."""

    def register(function):
        name = function.__name__
        MODELS[name] = (type(name, (Base,), {"forward": function}), inputs or (X,), shapes)
        return function

    return register


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("count", torch.zeros(8))


@torch.library.custom_op("strangers::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@torch.library.custom_op("strangers::shapeless", mutates_args=())
def shapeless(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)


@refused()
def merges_its_weights(self, x):
    self.linear.weight.data = self.linear.weight.data @ self.linear.weight.data
    return self.linear(x)


# Control flow that values decide


@refused()
def branch(self, x):
    return self.linear(x) if x.sum() > 0 else x


@refused()
def branch_on_item(self, x):
    return x * 2 if x.max().item() > 0 else x


@refused()
def loop(self, x):
    while x.abs().max() > 1:
        x = x / 2
    return x


@refused()
def counted_loop(self, x):
    for _ in range(int(x.abs().sum())):
        x = self.linear(x)
    return x


@refused()
def distribution(self, x):
    return torch.distributions.Normal(x, 1.0).rsample()


# Shapes that values decide


@refused()
def nonzero(self, x):
    return self.linear(x).nonzero()


@refused()
def masked(self, x):
    return x[x > 0]


@refused()
def masked_select(self, x):
    return torch.masked_select(x, x > 0)


@refused()
def unique(self, x):
    return torch.unique(x)


@refused()
def repeats(self, x):
    return torch.repeat_interleave(x, (x[:, 0] > 0).long() + 1, dim=0)


@refused()
def bins(self, x):
    return torch.bincount((x[:, 0] > 0).long())


@refused()
def counted(self, x):
    return torch.arange(x.abs().sum().long().item())


@refused()
def cut(self, x):
    return x[: x[0, 0].abs().long().item()]


@refused()
def parts(self, x):
    n = x[0, 0].abs().long().item()
    return torch.split(x, [n, 4 - n])


@refused(X, torch.tensor([1, 2, 3, 4]))
def packed(self, x, lengths):
    given = nn.utils.rnn.pack_padded_sequence(
        x[..., None], lengths, batch_first=True, enforce_sorted=False
    )
    return given.data


@refused()
def whole_number(self, x):
    return x * int(x[0, 0])


@refused()
def number(self, x):
    return x.sum().item()


# Random numbers, state, other libraries, gradients


@refused()
def dropout(self, x):
    return F.dropout(x, 0.5, training=True)


@refused()
def gumbel(self, x):
    return F.gumbel_softmax(x)


@refused()
def multinomial(self, x):
    return torch.multinomial(x.softmax(-1), 2)


@refused()
def fractional(self, x):
    return F.fractional_max_pool2d(x.reshape(1, 1, 4, 8), 2, output_size=(2, 3))


@refused()
def counter(self, x):
    self.count += 1
    return x + self.count


@refused()
def array(self, x):
    return torch.from_numpy(x.detach().numpy() * 2)


@refused()
def as_array(self, x):
    return torch.as_tensor(np.asarray(x))


@refused()
def gradient(self, x):
    y = x.clone().requires_grad_()
    return torch.autograd.grad((y**2).sum(), y)[0]


@refused()
def functional_gradient(self, x):
    return torch.func.grad(lambda a: (a**2).sum())(x)


@refused()
def address(self, x):
    return x * float(x.data_ptr())


# Operators and types that are not there


@refused()
def scanned(self, x):
    return scan(lambda c, a: (c + a.sum(), a * 2), torch.zeros(()), x)


@refused()
def own_operator(self, x):
    return doubled(self.linear(x))


@refused()
def own_operator_without_shape(self, x):
    return shapeless(self.linear(x))


@refused()
def least_squares(self, x):
    return torch.linalg.lstsq(x.t(), x.t()).solution


@refused()
def alignment(self, x):
    lengths = torch.tensor([4]), torch.tensor([2])
    return F.ctc_loss(x.log_softmax(-1)[:, None], torch.tensor([[1, 2]]), *lengths)


@refused()
def segments(self, x):
    return torch.segment_reduce(x, "sum", lengths=torch.tensor([2, 2]))


@refused()
def exponential(self, x):
    return torch.matrix_exp(x[:, :4])


@refused()
def complex_output(self, x):
    return torch.fft.fft(x)


@refused(torch.randn(4, 8, dtype=torch.complex64))
def complex_input(self, x):
    return x * 2


@refused()
def complex_inverse(self, x):
    return torch.linalg.inv(torch.fft.fft(x[:, :4])).real


@refused()
def eigenvalues(self, x):
    return torch.linalg.eigvals(x[:, :4]).real


@refused()
def double_complex(self, x):
    return torch.fft.fft(x.double()).real


@refused()
def long_transform(self, x):
    return torch.fft.rfft(F.pad(x, (0, 5001))).abs()


@refused()
def sparse(self, x):
    return torch.sparse.mm(x.to_sparse(), x.t())


@refused()
def compressed(self, x):
    return x.to_sparse_csr() @ self.linear.weight


@refused()
def nested(self, x):
    return torch.nested.nested_tensor([x, x[:2]]).to_padded_tensor(0)


@refused()
def jagged(self, x):
    return torch.nested.as_nested_tensor([x, x[:2]], layout=torch.jagged).sum()


@refused()
def quantized(self, x):
    return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()


@refused()
def eight_bits(self, x):
    return x.to(torch.float8_e4m3fn).float()


@refused()
def reinterpreted(self, x):
    return x.view(torch.int32)


# Results


@refused()
def an_object(self, x):
    return object()


@refused()
def a_generator(self, x):
    return (row for row in x)


@refused()
def nothing(self, x):
    return None


@refused()
def raises(self, x):
    raise ValueError("you must give more")


@refused()
def asserts(self, x):
    assert x.shape[0] == 3, "three rows please"
    return x


# Open extents


@refused(shapes=OPEN)
def fixed_by_reshape(self, x):
    return self.linear(x).reshape(2, 16)


@refused(shapes=OPEN)
def even(self, x):
    return self.linear(x).reshape(2, -1, 8)


@refused(shapes=({0: Dim("rows")},))
def half(self, x):
    return x.topk(x.shape[0] // 2, 0)[0]


@refused(shapes=OPEN)
def fixed_by_number(self, x):
    return x * float(x.shape[0]) ** 0.5


@refused(shapes=({0: Dim.DYNAMIC},))
def fixed_without_name(self, x):
    return self.linear(x).reshape(4, 8)


@refused(X, X.clone(), shapes=({0: Dim("rows")}, {0: Dim("others")}))
def equal_extents(self, x, y):
    return x + y


@refused(shapes=({0: Dim("rows")},))
def open_transform(self, x):
    return torch.fft.rfft(x, dim=0).abs()


@refused(shapes=({0: Dim("rows")},))
def open_plane(self, x):
    return F.interpolate(x[None, None], scale_factor=1.1)
