"""Formulas for gradients, such as `6(x + 1)`: products and sums of local partials, with like terms gathered."""

from __future__ import annotations

from netcl.expr import Call, Expr, Num, Var, to_text

_MOST_TERMS = 6
_MOST_PARTS = 40

Factors = tuple[Expr, ...]


def size(e: Expr) -> int:
    """How many names, numbers and calls an expression has."""
    stack, count = [e], 0
    while stack:
        top = stack.pop()
        count += 1
        if isinstance(top, Call):
            stack.extend(top.args)
    return count


def tidy(e: Expr) -> Expr | None:
    """The expression with constants multiplied and like terms added, or None where it is too long to read.

    This is the algebra of real numbers: `0 * x` is 0, which a NaN would contradict. It is for reading only.

    >>> from netcl import expr
    >>> expr.to_text(tidy(expr.parse("3 * (2 * (x + 1))"))), expr.to_text(tidy(expr.parse("b + a + a")))
    ('6(x + 1)', 'b + 2a')
    """
    if size(e) > _MOST_PARTS:
        return None
    gathered: dict[Factors, float] = {}
    for coefficient, factors in _terms(e):
        key = tuple(sorted(factors, key=to_text)) if len(factors) > 1 else factors
        gathered[key] = gathered.get(key, 0) + coefficient
    terms = [(coefficient, factors) for factors, coefficient in gathered.items() if coefficient != 0]
    if len(terms) > _MOST_TERMS:
        return None
    total: Expr | None = None
    for coefficient, factors in terms:
        term = _product(abs(coefficient) if total is not None else coefficient, factors)
        total = term if total is None else Call("sub" if coefficient < 0 else "add", (total, term))
    return Num(0) if total is None else total


def _terms(e: Expr) -> list[tuple[float, Factors]]:
    match e:
        case Num(value):
            return [(value, ())]
        case Call("add" | "sub", (a, b)):
            sign = -1 if e.fn == "sub" else 1
            return [*_terms(a), *((sign * coefficient, factors) for coefficient, factors in _terms(b))]
        case Call("neg", (a,)):
            return [(-coefficient, factors) for coefficient, factors in _terms(a)]
        case Call("mul", (a, b)):
            left, right = _terms(a), _terms(b)
            if len(left) == 1 and len(right) == 1:
                return [(left[0][0] * right[0][0], left[0][1] + right[0][1])]
            if len(left) == 1 and not left[0][1]:  # a number times a sum stays `6(x + 1)`
                return [(left[0][0], (_whole(b, right),))]
            if len(right) == 1 and not right[0][1]:
                return [(right[0][0], (_whole(a, left),))]
            return [
                (
                    (left[0][0] if len(left) == 1 else 1) * (right[0][0] if len(right) == 1 else 1),
                    (left[0][1] if len(left) == 1 else (a,)) + (right[0][1] if len(right) == 1 else (b,)),
                )
            ]
        case Call("pow", (a, Num(2))) if isinstance(a, Var):
            return [(1, (a, a))]
    return [(1, (e,))]


def _whole(e: Expr, terms: list[tuple[float, Factors]]) -> Expr:
    return e if len(terms) != 1 else _product(*terms[0])


def _product(coefficient: float, factors: Factors) -> Expr:
    powers: dict[Expr, int] = {}
    for factor in factors:
        powers[factor] = powers.get(factor, 0) + 1
    product: Expr | None = None
    for factor, power in powers.items():
        raised = factor if power == 1 else Call("pow", (factor, Num(power)))
        product = raised if product is None else Call("mul", (product, raised))
    number = Num(int(coefficient) if float(coefficient).is_integer() and abs(coefficient) < 2**53 else coefficient)
    if product is None:
        return number
    return (
        product
        if coefficient == 1
        else Call("neg", (product,))
        if coefficient == -1
        else Call("mul", (number, product))
    )
