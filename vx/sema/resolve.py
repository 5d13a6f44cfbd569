"""Types: from the syntax tree's `TypeExpr` to `tree.Type`, and instances of generic structs and enums.

Enters: type expressions and the environment they are written in. Leaves: types; structs and enums are
instantiated on the way, their fields resolved, and the session knows them by key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from vx import resources
from vx.diagnostics.span import Span
from vx.runtime.abi import MAX_RANK
from vx.sema import constants, destructors, placement, tree
from vx.sema.context import (
    MAX_DEPTH,
    MAX_KEY,
    MAX_PARTS,
    CheckFailed,
    ConstArg,
    EnumInstance,
    Env,
    GenericValue,
    Session,
    StructInstance,
    show_generic,
    type_node,
)
from vx.sema.names import (
    AliasItem,
    Ambiguous,
    EnumItem,
    FixedItem,
    Item,
    ModuleScope,
    StructItem,
    UnsupportedItem,
    did_you_mean,
    item_kind,
    lookup,
    visible_names,
)
from vx.sema.types import show, show_dims
from vx.syntax import ast

_SCALARS = frozenset(tree.BITS) - frozenset(tree.STORAGE_ONLY)
_ELEMENTS = frozenset(tree.BITS)
FUNCTION_POINTER = tree.Ptr(tree.VOID, False)
"""What `fn(…) -> …` is: an address to hand to C."""
MAX_TENSOR_BYTES = (1 << 63) - 1
_MATRIX = tree.Tensor("f32", (tree.Dyn(), tree.Dyn()))


# ---- types -------------------------------------------------------------------------------------
def resolve_type(session: Session, env: Env, node: ast.TypeExpr) -> tree.Type:
    """The type that is written. Errors: E0202, E0307, E0901, E3012, E6025…, E7004, E7006."""
    match node:
        case ast.PathType():
            return _path_type(session, env, node)
        case ast.RefType(inner=inner, mutable=mutable):
            to = resolve_type(session, env, inner)
            return to if isinstance(to, tree.Ref) else tree.Ref(to, mutable)
        case ast.PtrType(inner=inner, mutable=mutable):
            return tree.Ptr(resolve_type(session, env, inner), mutable)
        case ast.TensorType():
            return tensor_type(session, env, node)
        case ast.WrapperType():
            return _wrapper(session, env, node)
        case ast.TopologyType():
            return tree.I32
        case ast.FnType(closure=False):
            return FUNCTION_POINTER
        case _:
            what, help_ = _UNSUPPORTED[type(node)]
            raise session.unsupported(f"{what} is", node.span, [help_])


_UNSUPPORTED: Mapping[type, tuple[str, str]] = {
    ast.FnType: ("a closure type", "write a function"),
    ast.ArrayType: ("an array type", "use a `Tensor` of rank 1"),
    ast.TupleType: ("a tuple type", "declare a struct"),
    ast.VectorType: ("a vector type", "use rows of a `Tensor`"),
}


def tensor_type(session: Session, env: Env, node: ast.TensorType) -> tree.Tensor:
    """A tensor type with its shape. Unplaced, it means the memory of whoever runs the code."""
    if node.dims is None:
        message = "this tensor type has no shape"
        help_ = "write one: `Tensor<f32, [2, 3]>`, with `?` for what is known at run time"
        raise session.fail("E7004", message, node.span, helps=[help_])
    elem = element_type(session, env, node.elem)
    dims: tuple[tree.Dim, ...] = tuple(
        tree.Dyn() if dim is None else constants.dimension(session, env, dim) for dim in node.dims
    )
    check_shape(session, elem, dims, node.span)
    return tree.Tensor(elem, dims, written_place(session, env, node, elem))


def check_shape(session: Session, elem: str, dims: tuple[tree.Dim, ...], span: Span) -> None:
    """E7004 for more dimensions than a tensor has at most, E7006 if its bytes or positions cannot be counted."""
    if len(dims) > MAX_RANK:
        message = f"a tensor has at most {MAX_RANK} dimensions, and this has {len(dims)}"
        raise session.fail("E7004", message, span)
    elements = prod(max(dim, 1) for dim in dims if isinstance(dim, int))
    if elements * tree.BITS[elem] // 8 > MAX_TENSOR_BYTES:
        message = f"a tensor of {show_dims(dims)} {elem} is too large"
        raise session.fail("E7006", message, span, notes=["its size in bytes has to fit in 63 bits"])


def written_place(session: Session, env: Env, node: ast.TensorType, elem: str) -> tree.Place | None:
    """Where a tensor of this type lives; E6026 if that device cannot represent its elements."""
    place = placement.type_place(session, env.here if node.place is None else _at(session, env, node.place))
    placement.check_dtype(session, place, elem, node.span)
    return place


def _at(session: Session, env: Env, node: ast.PlaceExpr) -> tree.Place:
    """The place that a type names. Error: E6014 for the host's memory."""
    place = placement.placed(session, env, node)
    if place.space == session.host.space:
        placement.check_host(session, "this type", node.span)
    return place


def element_type(session: Session, env: Env, node: ast.TypeExpr) -> str:
    """The name of an element type."""
    if isinstance(node, ast.PathType) and node.segments[-1] in _ELEMENTS and len(node.segments) == 1:
        return node.segments[0]
    found = resolve_type(session, env, node)
    if not isinstance(found, tree.Scalar):
        raise session.fail("E7002", f"{show(found)} cannot be the element type of a tensor", node.span)
    return found.name


def _wrapper(session: Session, env: Env, node: ast.WrapperType) -> tree.Type:
    if node.kind == "Verified":
        raise session.unsupported("`Verified<…>` is", node.span)
    inner = resolve_type(session, env, node.inner)
    if isinstance(inner, tree.Tensor) and node.place is not None:
        place = placement.type_place(session, _at(session, env, node.place))
        inner = tree.Tensor(inner.elem, inner.dims, place)
    return tree.Ref(inner, False) if node.kind == "Ref" else inner


def _path_type(session: Session, env: Env, node: ast.PathType) -> tree.Type:
    if len(node.segments) == 1 and not node.args:
        plain = _plain_name(session, env, node)
        if plain is not None:
            return plain
    item = find_item(session, env.scope, node.segments, node.span, "type")
    match item:
        case StructItem() | EnumItem():
            args = generic_args(session, env, item, node.args, node.span)
            return instantiate(session, item, args, node.span, env.depth)
        case AliasItem():
            if env.depth > MAX_DEPTH:
                raise session.fail("E0303", f"the type `{item.node.name}` is declared by itself", item.node.span)
            return resolve_type(session, Env(item.module, session.host, depth=env.depth + 1), item.node.type)
        case FixedItem(meaning=tree.Scalar()):
            assert isinstance(item.meaning, tree.Scalar)
            return item.meaning
        case UnsupportedItem():
            raise session.unsupported(f"{item.what} is", node.span)
        case _:
            name = "::".join(node.segments)
            raise session.fail("E0202", f"`{name}` is {item_kind(item)}, not a type", node.span)


def _plain_name(session: Session, env: Env, node: ast.PathType) -> tree.Type | None:
    name = node.segments[0]
    if name in env.bindings:
        bound = env.bindings[name]
        if isinstance(bound, ConstArg | tree.Place):
            raise session.fail("E0202", f"`{name}` is {_bound_kind(bound)}, not a type", node.span)
        return bound
    if name in _SCALARS:
        return tree.Scalar(name)
    if name == "void":
        return tree.VOID
    if name == "Matrix":
        return _MATRIX
    if name in _ELEMENTS:
        raise session.fail("E3012", f"{name} exists only as the element type of a tensor", node.span)
    return None


def _bound_kind(bound: GenericValue) -> str:
    return "a const parameter" if isinstance(bound, ConstArg) else "a topology"


# ---- items by path -----------------------------------------------------------------------------
def find_item(session: Session, scope: ModuleScope, segments: Sequence[str], span: Span, what: str) -> Item:
    """The item that a path names. Errors: E0201 or E0202 unknown, E0207 ambiguous, E0208 no such module."""
    if len(segments) > 1:
        module = module_named(session, scope, segments[:-1], span)
        found: Item | Ambiguous | None = module.items.get(segments[-1])
        names = list(module.items)
    else:
        found = lookup(scope, segments[0])
        names = [*visible_names(scope), *(_SCALARS if what == "type" else ())]
    if isinstance(found, Ambiguous):
        raise ambiguous(session, segments[-1], found, span)
    if found is None:
        raise unknown(session, "::".join(segments), segments[-1], names, span, what)
    return found


def module_named(session: Session, scope: ModuleScope, path: Sequence[str], span: Span) -> ModuleScope:
    """The imported module that `a::b` names in `scope`: by its last name or its whole path."""
    for name, module in scope.imports.items():
        if list(path) == [name] or tuple(path) == module.path:
            return module
    if list(path) == [scope.name]:
        return scope
    text = "::".join(path)
    library = len(path) == 1 and resources.find("std", f"{text}.vx").is_file()
    help_ = did_you_mean(text, scope.imports) or (f"import it: `import {'std::' if library else ''}{text};`",)
    raise session.fail("E0208", f"no module `{text}` is imported here", span, helps=help_)


def ambiguous(session: Session, name: str, found: Ambiguous, span: Span) -> CheckFailed:
    """E0207: several imports declare the name."""
    choices = " or ".join(f"`{item.module.name}::{name}`" for item in found.items)
    modules = " and ".join(f"`{item.module.name}`" for item in found.items)
    return session.fail("E0207", f"`{name}` is declared in {modules}", span, helps=[f"write {choices}"])


def unknown(session: Session, text: str, name: str, names: Sequence[str], span: Span, what: str) -> CheckFailed:
    """E0202 for a type, E0201 for anything else that is not declared."""
    code = "E0202" if what == "type" else "E0201"
    return session.fail(code, f"there is no {what} `{text}` here", span, helps=did_you_mean(name, names))


# ---- generic arguments -------------------------------------------------------------------------
def generic_args(
    session: Session, env: Env, item: StructItem | EnumItem, args: tuple[ast.GenericArg, ...], span: Span
) -> tuple[GenericValue, ...]:
    """All arguments of a generic struct or enum. Error: E0307 if their number differs."""
    params = item.node.generics
    if len(args) != len(params):
        raise wrong_count(session, item.node.name, len(params), len(args), span, item.node.span)
    bindings: dict[str, GenericValue] = {}
    for param, arg in zip(params, args, strict=True):
        inner = Env(item.module, session.host, bindings)
        bindings[param.name] = generic_arg(session, env, param, arg, inner)
    return tuple(bindings.values())


def wrong_count(session: Session, name: str, want: int, have: int, span: Span, declared: Span) -> CheckFailed:
    """E0307: the number of generic arguments."""
    arguments = "1 generic argument" if want == 1 else f"{want} generic arguments"
    message = f"`{name}` takes {arguments}, and {have} {'is' if have == 1 else 'are'} given"
    return session.fail("E0307", message, span, labels=[(declared, f"`{name}` is declared here")])


def generic_arg(
    session: Session, env: Env, param: ast.GenericParam, arg: ast.GenericArg, param_env: Env
) -> GenericValue:
    """One argument, by the kind of its parameter. `param_env` is where the parameter's own type is written."""
    if param.kind == "const":
        return _const_arg(session, env, param, arg, param_env)
    if param.kind == "topology":
        return _topology_arg(session, env, arg)
    if isinstance(arg, _TYPE_NODES):
        return resolve_type(session, env, arg)
    raise session.fail("E0307", f"`{param.name}` is a type parameter, and this is no type", arg.span)


_TYPE_NODES = (
    ast.PathType, ast.RefType, ast.PtrType, ast.TensorType, ast.WrapperType, ast.FnType, ast.ArrayType,
    ast.TupleType, ast.VectorType, ast.TopologyType,
)  # fmt: skip


def as_expression(arg: ast.GenericArg) -> ast.Expr | None:
    """A generic argument read as an expression (a plain name is parsed as a type)."""
    if isinstance(arg, ast.PathType):
        if arg.args:
            return None
        return ast.Path(arg.span, tuple(ast.PathSegment(arg.span, name, ()) for name in arg.segments))
    return None if isinstance(arg, _TYPE_NODES) else arg


def _names_type(env: Env, arg: ast.GenericArg) -> bool:
    """Whether a plain name given as a generic argument is that of a type."""
    if not isinstance(arg, ast.PathType) or len(arg.segments) != 1:
        return False
    name = arg.segments[0]
    bound = env.bindings.get(name)
    if bound is not None:
        return not isinstance(bound, ConstArg | tree.Place)
    return name in _ELEMENTS or isinstance(lookup(env.scope, name), StructItem | EnumItem | AliasItem)


def _const_arg(session: Session, env: Env, param: ast.GenericParam, arg: ast.GenericArg, param_env: Env) -> ConstArg:
    assert param.type is not None
    want = resolve_type(session, param_env, param.type)
    node = as_expression(arg)
    if node is None or _names_type(env, arg):
        raise session.fail("E0307", f"`{param.name}` is a const parameter, and this is a type", arg.span)
    value = constants.constant(session, env, node, want)
    if value.type != want or not isinstance(value, tree.Const):
        message = f"`{param.name}` is a const parameter of type {show(want)}, and this is {show(value.type)}"
        raise session.fail("E0307", message, arg.span)
    if isinstance(value.value, int) and want != tree.BOOL:
        constants.check_range(session, value)
    return constants.as_arg(value)


def _topology_arg(session: Session, env: Env, arg: ast.GenericArg) -> tree.Place:
    if isinstance(arg, ast.PlaceValue):
        return placement.resolve_place(session, env, arg.place)
    if isinstance(arg, ast.PathType) and len(arg.segments) == 1:
        node = ast.TopologyPlace(arg.span, arg.segments[0], None, None)
        return placement.resolve_place(session, env, node)
    raise session.fail("E0307", "a topology is needed here, such as `Topology::CPU`", arg.span)


# ---- instances ---------------------------------------------------------------------------------
def instance_key(path: str, args: Sequence[GenericValue]) -> str:
    return f"{path}<{', '.join(map(show_generic, args))}>" if args else path


def instantiate(
    session: Session, item: StructItem | EnumItem, args: tuple[GenericValue, ...], span: Span, depth: int = 0
) -> tree.Struct | tree.Enum:
    """The type `item<args>`; its fields or payloads are resolved the first time it is seen."""
    key = instance_key(item.path, args)
    bindings = dict(zip((p.name for p in item.node.generics), args, strict=True))
    env = Env(item.module, session.host, bindings, depth + 1)
    if depth > MAX_DEPTH or len(key) > MAX_KEY:
        message = f"instantiating `{item.path}` does not end"
        raise session.fail("E0308", message, item.node.span, helps=["a type cannot contain ever larger types"])
    session.demand(type_node(key))
    if key in session.failed_types:
        raise CheckFailed(key)
    if key not in session.structs and key not in session.enums:
        outer = session.asked
        session.asked = outer or (span if item.module.library else None)
        try:
            with session.checks(type_node(key)):
                _resolve_type_item(session, key, item, args, env)
        except CheckFailed:
            session.failed_types.add(key)
            raise
        finally:
            session.asked = outer
    return tree.Struct(key) if isinstance(item, StructItem) else tree.Enum(key)


def _resolve_type_item(
    session: Session, key: str, item: StructItem | EnumItem, args: tuple[GenericValue, ...], env: Env
) -> None:
    for arg in args:
        if not isinstance(arg, ConstArg | tree.Place):
            session.demand_type(arg)
    if isinstance(item, StructItem):
        session.structs[key] = StructInstance(item, args, env)
        _resolve_struct(session, key, item, env)
    else:
        session.enums[key] = EnumInstance(item, args, env)
        _resolve_enum(session, key, item, env)
    _require_finite(session, key, item.node.span)
    _require_small(session, key, item.node.span)


def _resolve_enum(session: Session, key: str, item: EnumItem, env: Env) -> None:
    session.enums[key].variants = tuple(
        (variant.name, tuple(_stored(session, env, t) for t in variant.items)) for variant in item.node.variants
    )


def _resolve_struct(session: Session, key: str, item: StructItem, env: Env) -> None:
    instance = session.structs[key]
    fields = []
    for field in item.node.fields:
        fields.append((field.name, _stored(session, env, field.type)))
        instance.fields = tuple(fields)
    instance.drop = destructors.find(session, tree.Struct(key), item.node.span)


def _stored(session: Session, env: Env, node: ast.TypeExpr) -> tree.Type:
    """The type of a field or payload."""
    type_ = resolve_type(session, env, node)
    if type_ == tree.VOID:
        raise session.fail("E3012", "a field cannot be void", node.span)
    return type_


def _require_finite(session: Session, key: str, span: Span) -> None:
    """E0311 if a value of struct or enum `key` would contain another one by value."""
    seen: set[str] = set()
    pending = list(_contents(session, key))
    while pending:
        inner = pending.pop()
        if inner == key:
            message = f"`{key}` contains itself, so it would be infinitely large"
            raise session.fail("E0311", message, span, helps=["put a pointer in between, such as `*mut T`"])
        if inner not in seen:
            seen.add(inner)
            pending.extend(_contents(session, inner))


def _require_small(session: Session, key: str, span: Span) -> None:
    """E0313 if struct or enum `key` has more parts than code should pass around as one value."""
    parts = sum(
        session.part_counts.get(type_.key, 1) if isinstance(type_, tree.Struct | tree.Enum) else 1
        for type_ in _parts(session, key)
    )
    if parts > MAX_PARTS:
        message = f"`{key}` has {parts} parts, those of its fields counted, and at most {MAX_PARTS} make one value"
        raise session.fail("E0313", message, span, helps=["keep many values in a `Tensor` or a `Vec`"])
    session.part_counts[key] = parts


def _contents(session: Session, key: str) -> list[str]:
    """The structs and enums that `key` directly contains, as far as its fields are resolved."""
    return [type_.key for type_ in _parts(session, key) if isinstance(type_, tree.Struct | tree.Enum)]


def _parts(session: Session, key: str) -> list[tree.Type]:
    """The types of a struct's fields, or of all payloads of an enum."""
    if key in session.structs:
        return [type_ for _, type_ in session.structs[key].fields]
    return [type_ for _, items in session.enums[key].variants for type_ in items]
