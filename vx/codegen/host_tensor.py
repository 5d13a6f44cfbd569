"""Tensors in host code: descriptors, windows and single elements. Nothing here computes with elements.

Enters: tensor places and the values that make tensors. Leaves: `View`s, whose bounds are checked when
they are settled (`settle`) or an element is reached (`element`): a flat offset against the whole tensor,
ranges against the extent they cut, and with strict indexing every index against its extent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vx.admission import tiles
from vx.codegen import host_arena, host_device
from vx.codegen.host_caller import note_place
from vx.codegen.host_function import Emitter, Lead, Operand, Shape, View
from vx.codegen.layout import Size, descriptor_bytes, element_bytes, tensor_of
from vx.codegen.llvm_text import INTEGERS, MEMORY, Int
from vx.diagnostics.span import Span
from vx.sema import tree
from vx.sema.tree import UNSIGNED, PlaceNode, Scalar, Type, Value


# ---- i64 arithmetic that folds ---------------------------------------------------------------------
def add(fn: Emitter, a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0 or b == 0:
        return b if a == 0 else a
    return fn.op(f"add i64 {a}, {b}")


def sub(fn: Emitter, a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else fn.op(f"sub i64 {a}, {b}")


def mul(fn: Emitter, a: Int, b: Int) -> Int:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 0 or b == 0:
        return 0
    if a == 1 or b == 1:
        return b if a == 1 else a
    return fn.op(f"mul i64 {a}, {b}")


def product(fn: Emitter, factors: Sequence[Int]) -> Int:
    result: Int = 1
    for factor in factors:
        result = mul(fn, result, factor)
    return result


def index_i64(fn: Emitter, node: Value) -> Int:
    """An index of any integer type as i64."""
    if isinstance(node, tree.Const):
        return int(node.value)
    assert isinstance(node.type, Scalar)
    name = node.type.name
    value = fn.scalar(node)
    bits = INTEGERS[name]
    if bits == 64:
        return value
    if bits > 64:
        return fn.op(f"trunc i{bits} {value} to i64")
    return fn.op(f"{'zext' if name in UNSIGNED else 'sext'} i{bits} {value} to i64")


# ---- descriptors -----------------------------------------------------------------------------------
def dense_strides(fn: Emitter, extents: Sequence[Int]) -> tuple[Int, ...]:
    """Strides of a row-major tensor without gaps."""
    strides: list[Int] = []
    step: Int = 1
    for extent in reversed(extents):
        strides.append(step)
        step = mul(fn, step, extent)
    return tuple(reversed(strides))


def dense_view(fn: Emitter, elem: str, data: str, extents: Sequence[Int]) -> View:
    """A whole tensor at `data`."""
    return View(elem, data, 0, tuple(extents), dense_strides(fn, extents), None, True)


def load_view(fn: Emitter, address: str, type_: Type) -> View:
    """The tensor that a descriptor in memory describes; what its type says is not loaded."""
    tensor = tensor_of(type_)
    rank = len(tensor.dims)
    data = fn.op(f"load ptr, ptr {address}")

    def word(number: int) -> str:
        return fn.op(f"load i64, ptr {fn.at_offset(address, 8 + 8 * number)}")

    extents = tuple(dim if isinstance(dim, int) else word(axis) for axis, dim in enumerate(tensor.dims))
    if isinstance(type_, tree.Tensor):
        return dense_view(fn, tensor.elem, data, extents)
    strides = tuple(word(rank + axis) for axis in range(rank))
    return View(tensor.elem, data, 0, extents, strides, None, rank == 0)


def store_view(fn: Emitter, view: View, address: str) -> None:
    """Write a settled view's descriptor."""
    assert view.offset == 0 and view.whole is None, "a view must be settled before it is stored"
    fn.line(f"store ptr {view.data}, ptr {address}")
    for number, word in enumerate((*view.extents, *view.strides)):
        fn.line(f"store i64 {word}, ptr {fn.at_offset(address, 8 + 8 * number)}")


def spill(fn: Emitter, view: View) -> str:
    """A view's descriptor in memory of its own; its address."""
    address = fn.alloca(Size(descriptor_bytes(len(view.extents)), 8))
    store_view(fn, view, address)
    return address


# ---- bounds ----------------------------------------------------------------------------------------
def span_of(fn: Emitter, shape: Shape) -> Int:
    """How many elements lie between the first and the last of a tensor, both included."""
    if shape.dense:
        return product(fn, shape.extents)
    total: Int = 1
    for extent, stride in zip(shape.extents, shape.strides, strict=True):
        total = add(fn, total, mul(fn, add(fn, extent, -1), stride))
    if isinstance(total, int):
        return max(total, 0)
    fn.module.declare("llvm.smax.i64", "declare i64 @llvm.smax.i64(i64, i64)")
    return fn.op(f"call i64 @llvm.smax.i64(i64 {total}, i64 0)")


def shape_of(view: View) -> Shape:
    return Shape(view.extents, view.strides, view.dense)


def check_index(fn: Emitter, index: Int, extent: Int, span: Span) -> None:
    """Abort unless 0 <= index < extent."""
    if isinstance(index, int) and isinstance(extent, int) and 0 <= index < extent:
        return
    fn.line(f"call void {fn.module.helper('index')}(i64 {index}, i64 {extent}, ptr {fn.where(span)})")


def _check_window(fn: Emitter, view: View, span: Span) -> None:
    if view.whole is None:
        return
    if view.lead is not None:
        check_index(fn, view.lead.index, view.lead.extent, span)
        return
    if view.offset == 0:
        return
    limit, length = span_of(fn, view.whole), span_of(fn, shape_of(view))
    if length == 1:
        check_index(fn, view.offset, limit, span)
        return
    room = sub(fn, limit, length) if isinstance(limit, int) and isinstance(length, int) else None
    if isinstance(room, int) and isinstance(view.offset, int) and 0 <= view.offset <= room:
        return
    helper = fn.module.helper("window")
    fn.line(f"call void {helper}(i64 {view.offset}, i64 {length}, i64 {limit}, ptr {fn.where(span)})")


def pointer(fn: Emitter, view: View) -> str:
    """The address of a view's first element."""
    if view.offset == 0:
        return view.data
    return fn.op(f"getelementptr inbounds {MEMORY[view.elem]}, ptr {view.data}, i64 {view.offset}")


def settle(fn: Emitter, view: View, span: Span) -> View:
    """Check that a window lies in its tensor, and start it at its own first element."""
    _check_window(fn, view, span)
    if view.offset == 0:
        return replace(view, whole=None, lead=None)
    return replace(view, data=pointer(fn, view), offset=0, whole=None, lead=None)


def element(fn: Emitter, view: View, span: Span) -> str:
    """The address of a rank-0 window's element, checked."""
    _check_window(fn, view, span)
    return pointer(fn, view)


# ---- places ----------------------------------------------------------------------------------------
def reference_place(fn: Emitter, node: PlaceNode) -> View:
    """A place that holds a descriptor."""
    result = fn.held(node) if isinstance(node, tree.Local) else load_view(fn, fn.address(node), node.type)
    assert isinstance(result, View)
    return result


def deref_tensor(fn: Emitter, node: tree.Deref) -> View:
    if isinstance(node.ref.type, tree.Ptr):
        return load_view(fn, fn.scalar(node.ref), node.type)
    if isinstance(node.ref.type, tree.Ref) and isinstance(node.ref.type.to, tree.Ref):
        return load_view(fn, fn.scalar(node.ref), node.type)
    return fn.view(node.ref)


def temp_tensor(fn: Emitter, node: tree.Temp) -> View:
    return borrowed(fn, node.value)


def borrowed(fn: Emitter, node: Value) -> View:
    """A tensor operand; if it is an owned temporary, it goes at the end of the statement."""
    view = fn.view(node)
    if isinstance(node.type, tree.Tensor) and not (isinstance(node, tree.Read) and not node.move):
        fn.defer(lambda: fn.drop(view, node.type))
    return view


def model_tensor(fn: Emitter, node: tree.ModelTensor) -> View:
    assert isinstance(node.type, tree.Tensor)
    number = next(n for n, ref in enumerate(fn.module.program.model) if ref.name == node.name)
    fn.module.declare("vx_model_tensor", "declare ptr @vx_model_tensor(i32) nounwind willreturn memory(none)")
    data = fn.op(f"call ptr @vx_model_tensor(i32 {number})")
    extents = [dim for dim in node.type.dims if isinstance(dim, int)]
    return dense_view(fn, node.type.elem, data, extents)


def index_tensor(fn: Emitter, node: tree.Index) -> View:
    """`t[i, a..b]`: offset, extents and strides; the check waits until the window is used."""
    if fn.is_raw_index(node):
        return load_view(fn, fn.address(node), node.type)
    base = fn.tensor_place(node.base)
    dims = node.type.dims if isinstance(node.type, tree.Tensor) else ()
    offset = base.offset
    extents: list[Int] = []
    strides: list[Int] = []
    lead = None
    for axis, item in enumerate(node.indices):
        if isinstance(item, tree.At):
            start = index_i64(fn, item.index)
            if fn.module.options.strict_index:
                check_index(fn, start, base.extents[axis], node.span)
            elif len(node.indices) == 1 and base.whole is None:
                lead = Lead(start, base.extents[0])
        else:
            dim = dims[len(extents)]
            start, extent = _range(fn, item, base.extents[axis], node.span)
            extents.append(dim if isinstance(dim, int) else extent)
            strides.append(base.strides[axis])
        offset = add(fn, offset, mul(fn, start, base.strides[axis]))
    rest = len(node.indices)
    extents += base.extents[rest:]
    strides += base.strides[rest:]
    dense = base.dense and all(isinstance(item, tree.At) for item in node.indices[:-1])
    whole = None if fn.module.options.strict_index else base.whole or shape_of(base)
    return View(base.elem, base.data, offset, tuple(extents), tuple(strides), whole, dense, lead)


def _range(fn: Emitter, item: tree.Slice, extent: Int, span: Span) -> tuple[Int, Int]:
    """A checked range: its start and length."""
    low, high = index_i64(fn, item.low), index_i64(fn, item.high)
    known = isinstance(low, int) and isinstance(high, int) and isinstance(extent, int) and 0 <= low <= high <= extent
    if not known and not (low == 0 and high == extent):
        fn.line(f"call void {fn.module.helper('slice')}(i64 {low}, i64 {high}, i64 {extent}, ptr {fn.where(span)})")
    return low, sub(fn, high, low)


def require(fn: Emitter, holds: str, message: str, span: Span) -> None:
    """Abort with `message at file:line` unless `holds`."""
    text = fn.module.string(f"{message} at {fn.module.where(span)}".encode())
    fn.line(f"call void {fn.module.helper('require')}(i1 {holds}, ptr {text})")


def require_equal(fn: Emitter, left: Int, right: Int, message: str, span: Span) -> None:
    """Abort unless two i64s are equal."""
    if left != right:
        require(fn, fn.op(f"icmp eq i64 {left}, {right}"), message, span)


def require_same_extents(fn: Emitter, left: View, right: View, span: Span) -> None:
    """Abort unless two tensors have the same shape."""
    for a, b in zip(left.extents, right.extents, strict=True):
        require_equal(fn, a, b, "the extents differ", span)


def require_dense(fn: Emitter, view: View, what: str, span: Span) -> None:
    """Abort unless a view has no gaps."""
    if view.dense:
        return
    for extent, stride, dense in zip(view.extents, view.strides, dense_strides(fn, view.extents), strict=True):
        if stride == dense or extent == 1:
            continue
        same = fn.op(f"icmp eq i64 {stride}, {dense}")
        single = fn.op(f"icmp eq i64 {extent}, 1")
        require(fn, fn.op(f"or i1 {same}, {single}"), f"{what} of a view with gaps", span)


def reshape(fn: Emitter, node: tree.Reshape) -> View:
    base = fn.tensor_place(node.base)
    require_dense(fn, base, "reshape", node.span)
    extents = tuple(index_i64(fn, dim) for dim in node.dims)
    for extent in extents:
        if not isinstance(extent, int):
            require(fn, fn.op(f"icmp sge i64 {extent}, 0"), "reshape to a negative extent", node.span)
    have, want = product(fn, base.extents), product(fn, extents)
    require_equal(fn, have, want, "reshape to another number of elements", node.span)
    whole = base.whole or shape_of(base)
    return View(base.elem, base.data, base.offset, extents, dense_strides(fn, extents), whole, True)


def transpose(fn: Emitter, node: tree.Transpose) -> View:
    base = fn.tensor_place(node.base)
    whole = base.whole or shape_of(base)
    return View(base.elem, base.data, base.offset, base.extents[::-1], base.strides[::-1], whole, False)


def bytes_view(fn: Emitter, node: tree.Bytes) -> View:
    base = settle(fn, fn.tensor_place(node.base), node.span)
    require_dense(fn, base, "the bytes", node.span)
    count = mul(fn, product(fn, base.extents), element_bytes(base.elem))
    return dense_view(fn, "u8", base.data, (count,))


# ---- making and copying ------------------------------------------------------------------------------
def checked_bytes(fn: Emitter, elem: str, extents: Sequence[Int], span: Span) -> Int:
    """Bytes of a tensor; aborts if an extent is negative or the product does not fit."""
    total: Int = element_bytes(elem)
    for extent in extents:
        if isinstance(total, int) and isinstance(extent, int):
            total *= extent
        else:
            helper = fn.module.helper("size")
            text = f"a tensor with a negative extent, or too large, at {fn.module.where(span)}"
            message = fn.module.string(text.encode())
            total = fn.op(f"call i64 {helper}(i64 {total}, i64 {extent}, ptr {message})")
    if isinstance(total, int) and total >= 1 << 63:
        require(fn, "false", "a tensor too large", span)
        return 0
    return total


def allocate(fn: Emitter, node: Value, extents: Sequence[Int], zeroed: bool = False) -> View:
    """The tensor that a node makes: in its place of an arena, or in memory of its own."""
    elem, span = tensor_of(node.type).elem, node.span
    size = checked_bytes(fn, elem, extents, span)
    if fn.module.arenas.bank(node.type) is not None:
        return dense_view(fn, elem, _in_arena(fn, node, size, zeroed), extents)
    note_place(fn, span)
    function = fn.module.runtime("vx_alloc_zero" if zeroed else "vx_alloc")
    return dense_view(fn, elem, fn.op(f"call ptr {function}(i64 {size})"), extents)


def _in_arena(fn: Emitter, node: Value, size: Int, zeroed: bool) -> str:
    data = host_arena.tile(fn, node)
    assert data is not None, node
    most = tiles.size_of(tensor_of(node.type), node.extents if isinstance(node, tree.TensorNew) else ()).bytes
    if not isinstance(size, int) or size > most:  # the latter only for packed elements: E9036 refuses the build
        require(fn, fn.op(f"icmp sle i64 {size}, {most}"), "a tensor larger than its bound", node.span)
    if zeroed and fn.module.remote.of(node.type) is not None:
        host_device.zero(fn, data, size)
    elif zeroed:
        name = fn.module.declare("llvm.memset.p0.i64", "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
        fn.line(f"call void {name}(ptr {data}, i8 0, i64 {size}, i1 false)")
    return data


def copy_elements(fn: Emitter, target: View, source: View) -> None:
    """Copy between tensors of the same shape."""
    size = element_bytes(source.elem)
    if target.dense and source.dense:
        name = fn.module.declare("llvm.memmove.p0.p0.i64", "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)")
        count = mul(fn, product(fn, source.extents), size)
        fn.line(f"call void {name}(ptr {target.data}, ptr {source.data}, i64 {count}, i1 false)")
        return
    rank = len(source.extents)
    to, of = spill(fn, target), spill(fn, source)
    strides = [fn.at_offset(address, 8 + 8 * rank) for address in (to, of)]
    extents = fn.at_offset(of, 8)
    function = fn.module.runtime("vx_copy_strided")
    fn.line(
        f"call void {function}(ptr {target.data}, ptr {strides[0]}, ptr {source.data}, ptr {strides[1]}, "
        f"ptr {extents}, i32 {rank}, i64 {size})"
    )


def copy_of(fn: Emitter, node: tree.CopyTensor | tree.Transfer) -> View:
    """A new tensor with the contents of a view."""
    source = borrowed(fn, node.ref)
    target = allocate(fn, node, _extents_by_type(node.type, source))
    if _is_weight(node) and fn.module.remote.of(node.type) is not None:
        host_device.load_weight(fn, target, source)
    elif not host_device.copy(fn, target, node.type, source, node.ref.type):
        copy_elements(fn, target, source)
    return target


def _is_weight(node: tree.CopyTensor | tree.Transfer) -> bool:
    """Whether the whole of a model tensor is transferred."""
    return isinstance(node.ref, tree.AddrOf) and isinstance(node.ref.place, tree.ModelTensor)


def _extents_by_type(type_: Type, source: View) -> list[Int]:
    dims = tensor_of(type_).dims
    return [dim if isinstance(dim, int) else extent for dim, extent in zip(dims, source.extents, strict=True)]


def tensor_new(fn: Emitter, node: tree.TensorNew) -> View:
    assert isinstance(node.type, tree.Tensor)
    elem = node.type.elem
    extents = [index_i64(fn, extent) for extent in node.extents]
    if node.items:
        return _from_items(fn, elem, extents, node)
    if node.fill is None or (isinstance(node.fill, tree.Const) and _is_zero_bits(node.fill)):
        return allocate(fn, node, extents, zeroed=node.init != "uninit")
    value = fn.scalar(node.fill)
    view = allocate(fn, node, extents)
    if fn.module.remote.of(node.type) is not None:
        host_device.fill(fn, view, fn.in_memory(value, Scalar(elem)))
        return view
    _fill(fn, view, fn.in_memory(value, Scalar(elem)))
    return view


def _is_zero_bits(node: tree.Const) -> bool:
    return node.value == 0 and not str(node.value).startswith("-")


def _from_items(fn: Emitter, elem: str, extents: Sequence[Int], node: tree.TensorNew) -> View:
    values = [fn.in_memory(fn.scalar(item), Scalar(elem)) for item in node.items]
    view = allocate(fn, node, extents)
    if fn.module.remote.of(node.type) is not None:
        there, view = view, dense_view(fn, elem, fn.alloca(Size(element_bytes(elem) * len(values), 16)), extents)
        _write_items(fn, view, node, values)
        host_device.copy(fn, there, node.type, view, tree.VOID)
        return there
    _write_items(fn, view, node, values)
    return view


def _write_items(fn: Emitter, view: View, node: tree.TensorNew, values: Sequence[str]) -> None:
    elem = view.elem
    kind = MEMORY[elem]
    if all(isinstance(item, tree.Const) for item in node.items):
        name = fn.module.array(kind, values)
        function = fn.module.declare("llvm.memcpy.p0.p0.i64", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        size = len(values) * element_bytes(elem)
        fn.line(f"call void {function}(ptr {view.data}, ptr {name}, i64 {size}, i1 false)")
        return
    for number, value in enumerate(values):
        address = fn.op(f"getelementptr inbounds {kind}, ptr {view.data}, i64 {number}")
        fn.line(f"store {kind} {value}, ptr {address}")


def _fill(fn: Emitter, view: View, value: str) -> None:
    kind = MEMORY[view.elem]
    count = product(fn, view.extents)
    before, head, body, after = fn.fresh_label(), fn.fresh_label(), fn.fresh_label(), fn.fresh_label()
    fn.label(before)
    fn.label(head)
    fn.count += 1
    at, following = f"%t{fn.count}", f"%n{fn.count}"
    fn.line(f"{at} = phi i64 [ 0, %{before} ], [ {following}, %{body} ]")
    fn.branch(fn.op(f"icmp slt i64 {at}, {count}"), body, after)
    fn.label(body)
    address = fn.op(f"getelementptr inbounds {kind}, ptr {view.data}, i64 {at}")
    fn.line(f"store {kind} {value}, ptr {address}")
    fn.line(f"{following} = add nuw nsw i64 {at}, 1")
    fn.goto(head)
    fn.label(after)


def extent_value(fn: Emitter, node: tree.Extent) -> Operand:
    return str(borrowed(fn, node.ref).extents[node.axis])


def tensor_pointer(fn: Emitter, node: tree.TensorPtr) -> Operand:
    view = borrowed(fn, node.ref)
    require_dense(fn, view, "a pointer", node.span)
    return view.data
