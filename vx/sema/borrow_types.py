"""Borrow checking: which types contain references. Enters: the typed program. Leaves: `RefTypes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vx.sema import tree


class RefTypes:
    """Answers questions about types, each worked out once."""

    def __init__(self, program: tree.Program) -> None:
        self._program = program
        self._holds: dict[tree.Type, bool] = {}
        self._mutable: dict[tree.Type, bool] = {}
        self._dropping: dict[tree.Type, bool] = {}

    def holds(self, type_: tree.Type) -> bool:
        """Whether a value of this type can keep a borrow alive (also behind a raw pointer it owns)."""
        if type_ not in self._holds:
            self._holds[type_] = any(isinstance(part, tree.Ref) for part in self._contents(type_, raw=True))
        return self._holds[type_]

    def holds_mutable(self, type_: tree.Type) -> bool:
        """Whether a `&mut` can be taken out of a value of this type."""
        if type_ not in self._mutable:
            contents = self._contents(type_, raw=True)
            self._mutable[type_] = any(isinstance(part, tree.Ref) and part.mutable for part in contents)
        return self._mutable[type_]

    def stores_through(self, type_: tree.Type) -> bool:
        """Whether a callee given this can store a reference where the caller sees it (`&mut &T`)."""
        return any(
            isinstance(part, tree.Ref) and part.mutable and self.holds(part.to)
            for part in self._contents(type_, raw=True)
        )

    def uses_refs_in_drop(self, type_: tree.Type) -> bool:
        """Whether dropping a value runs code that can look through references it contains."""
        if type_ not in self._dropping:
            self._dropping[type_] = any(
                self.has_drop(part) and any(isinstance(inner, tree.Ref) for inner in self._contents(part, raw=False))
                for part in self._contents(type_, raw=False)
            )
        return self._dropping[type_]

    def has_drop(self, type_: tree.Type) -> bool:
        return isinstance(type_, tree.Struct) and self._program.structs[type_.key].drop is not None

    def _contents(self, type_: tree.Type, raw: bool) -> Iterator[tree.Type]:
        """The type and everything stored inside it, references not followed."""
        seen = {type_}
        pending = [type_]
        while pending:
            part = pending.pop()
            yield part
            for inner in self._parts(part, raw):
                if inner not in seen:
                    seen.add(inner)
                    pending.append(inner)

    def _parts(self, type_: tree.Type, raw: bool) -> Iterator[tree.Type]:
        if isinstance(type_, tree.Struct):
            for _, field_type in self._program.structs[type_.key].fields:
                yield field_type
        elif isinstance(type_, tree.Enum):
            for _, payload in self._program.enums[type_.key].variants:
                yield from payload
        elif isinstance(type_, tree.Ptr) and raw:
            yield type_.to

    # ---- names ----
    def field_name(self, struct: str, index: int) -> str:
        return self._program.structs[struct].fields[index][0]

    def describe(self, place: tree.PlaceNode, decls: Mapping[tree.LocalId, tree.LocalDecl]) -> str:
        """A place as a user would write it."""
        match place:
            case tree.Local():
                return decls[place.id].name
            case tree.ModelTensor():
                return f"model::{place.name}"
            case tree.Field():
                owner = place.base.type
                name = self.field_name(owner.key, place.index) if isinstance(owner, tree.Struct) else "?"
                return f"{self.describe(place.base, decls)}.{name}"
            case tree.Deref():
                return self._describe_target(place, decls)
            case tree.Index():
                return f"{self.describe(place.base, decls)}[..]"
            case tree.Reshape() | tree.Transpose() | tree.Bytes():
                return self.describe(place.base, decls)
            case tree.Temp():
                return "temporary value"

    def _describe_target(self, place: tree.Deref, decls: Mapping[tree.LocalId, tree.LocalDecl]) -> str:
        if isinstance(place.ref, tree.Read | tree.AddrOf):
            return self.describe(place.ref.place, decls)
        return "temporary value"
