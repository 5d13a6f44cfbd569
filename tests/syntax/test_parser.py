"""Whole constructs to trees."""

from __future__ import annotations

from textwrap import dedent

from tests.syntax.helpers import codes, parse, tree
from vx.syntax import ast


def expect(text: str, expected: str) -> None:
    assert tree(dedent(text)) == dedent(expected).lstrip("\n")


def test_function_with_everything() -> None:
    expect(
        """
        /// One layer.
        /// Second line.
        role unsafe fn f<T, const N : i32, D : Topology, U : Show>(
            a : &mut Tensor<f32, [N + 1, ?], Topology::Device[D]>, b : *const i8,
        ) on Topology::GPU[0..2] -> Result<T, E> requires N > 0 ensures true where Reachable<D, D>, Reachable<D, E> {
            a
        }
        """,
        """
        Module
          items: Function name=f is_unsafe is_role doc='One layer.\\nSecond line.'
            generics[0]: GenericParam name=T kind=type
            generics[1]: GenericParam name=N kind=const
              type: PathType segments=i32
            generics[2]: GenericParam name=D kind=topology
            generics[3]: GenericParam name=U kind=type bound=Show
            params[0]: Param name=a
              type: RefType mutable
                inner: TensorType
                  elem: PathType segments=f32
                  dims[0]: Binary op=+
                    left: Path
                      segments: PathSegment name=N
                    right: Number value=1 text='1'
                  dims[1]: ?
                  place: TopologyPlace name=Device
                    index: Path
                      segments: PathSegment name=D
            params[1]: Param name=b
              type: PtrType
                inner: PathType segments=i8
            on: TopologyPlace name=GPU
              index: Number value=0 text='0'
              index_end: Number value=2 text='2'
            ret: PathType segments=Result
              args[0]: PathType segments=T
              args[1]: PathType segments=E
            requires: Binary op=>
              left: Path
                segments: PathSegment name=N
              right: Number value=0 text='0'
            ensures: BoolLit value
            where[0]: ReachableBound source=D target=D
            where[1]: ReachableBound source=D target=E
            body: Block
              value: Path
                segments: PathSegment name=a
        """,
    )


def test_items() -> None:
    expect(
        """
        import std::io;
        import "h100-sxm.vx";
        const N : i32 = 3;
        type Rows = Vec<f32>;
        struct P<T> { x : T, y : i32 z : model::E }
        enum Option<T> { Some(T), None }
        impl<T> Option<T> { fn f(self : &Option<T>) -> void { } }
        impl Show for P { }
        extern "C" { safe fn abs(x : i32) -> i32; fn exit(code : i32) -> void; }
        trait Show { fn show(self : &Self) -> void; }
        macro_rules! m { ($x:expr) => { $x + 1 }; }
        impl Transfer<Memory::A, Memory::B> for Topology::T { }
        """,
        """
        Module
          items[0]: Import path=std::io
          items[1]: ImportFile path=h100-sxm.vx
          items[2]: ConstItem name=N
            type: PathType segments=i32
            value: Number value=3 text='3'
          items[3]: TypeAlias name=Rows
            type: PathType segments=Vec
              args: PathType segments=f32
          items[4]: Struct name=P
            generics: GenericParam name=T kind=type
            fields[0]: Field name=x
              type: PathType segments=T
            fields[1]: Field name=y
              type: PathType segments=i32
            fields[2]: Field name=z
              type: PathType segments=model::E
          items[5]: Enum name=Option
            generics: GenericParam name=T kind=type
            variants[0]: Variant name=Some
              items: PathType segments=T
            variants[1]: Variant name=None
          items[6]: Impl
            generics: GenericParam name=T kind=type
            target: PathType segments=Option
              args: PathType segments=T
            functions: Function name=f
              params: Param name=self
                type: RefType
                  inner: PathType segments=Option
                    args: PathType segments=T
              ret: PathType segments=void
              body: Block
          items[7]: Impl
            trait: PathType segments=Show
            target: PathType segments=P
          items[8]: ExternBlock abi=C
            functions[0]: ExternFunction name=abs is_safe
              params: Param name=x
                type: PathType segments=i32
              ret: PathType segments=i32
            functions[1]: ExternFunction name=exit
              params: Param name=code
                type: PathType segments=i32
              ret: PathType segments=void
          items[9]: Trait name=Show
          items[10]: MacroDef name=m
          items[11]: TransferImpl
            source: MemoryPlace name=A
            target: MemoryPlace name=B
            topology: TopologyPlace name=T
        """,
    )


def test_statements() -> None:
    expect(
        """
        fn f() -> i32 {
            let mut x : i32 = 1;
            x -= 2;
            t[0] = x;
            while x < 3 { continue; }
            loop { break; }
            for i in 0..3 { ; }
            assert(x > 0, "positive");
            comptime { assert(N == 1); }
            { f(); }
            if x == 1 { 2 } else if y { 3 } else { return; }
            println!("x")
            spawn on(Topology::CPU) { f(); 4 }
        }
        """,
        """
        Module
          items: Function name=f
            ret: PathType segments=i32
            body: Block
              stmts[0]: Let name=x mutable
                type: PathType segments=i32
                value: Number value=1 text='1'
              stmts[1]: Assign op=-
                target: Path
                  segments: PathSegment name=x
                value: Number value=2 text='2'
              stmts[2]: Assign
                target: Index
                  receiver: Path
                    segments: PathSegment name=t
                  indices: Number value=0 text='0'
                value: Path
                  segments: PathSegment name=x
              stmts[3]: While
                cond: Binary op=<
                  left: Path
                    segments: PathSegment name=x
                  right: Number value=3 text='3'
                body: Block
                  stmts: Continue
              stmts[4]: Loop
                body: Block
                  stmts: Break
              stmts[5]: For name=i
                iterable: Range
                  low: Number value=0 text='0'
                  high: Number value=3 text='3'
                body: Block
              stmts[6]: Assert message=b'positive'
                cond: Binary op=>
                  left: Path
                    segments: PathSegment name=x
                  right: Number value=0 text='0'
              stmts[7]: ExprStmt
                expr: BlockExpr kind=comptime
                  block: Block
                    stmts: Assert
                      cond: Binary op===
                        left: Path
                          segments: PathSegment name=N
                        right: Number value=1 text='1'
              stmts[8]: ExprStmt
                expr: BlockExpr kind=plain
                  block: Block
                    stmts: ExprStmt semi
                      expr: Call
                        callee: Path
                          segments: PathSegment name=f
              stmts[9]: ExprStmt
                expr: If
                  cond: Binary op===
                    left: Path
                      segments: PathSegment name=x
                    right: Number value=1 text='1'
                  then: Block
                    value: Number value=2 text='2'
                  orelse: If
                    cond: Path
                      segments: PathSegment name=y
                    then: Block
                      value: Number value=3 text='3'
                    orelse: Block
                      stmts: Return
              stmts[10]: ExprStmt semi
                expr: MacroCall name=println
                  args: StringLit value=b'x'
              value: Spawn
                place: TopologyPlace name=CPU
                body: Block
                  stmts: ExprStmt semi
                    expr: Call
                      callee: Path
                        segments: PathSegment name=f
                  value: Number value=4 text='4'
        """,
    )


def test_match() -> None:
    expect(
        """
        fn f() -> i32 {
            match x {
                Result<i32, E>::Ok(Some(v)) => v,
                handoff::Error::Net(e) => { g(); 1 }
                Color::Red => return 2,
                -3 => y = 4,
                "s" => 5;
                true => if a { 7 } else { 8 }
                None => match b { _ => 9 }
                _ => 9
            }
        }
        """,
        """
        Module
          items: Function name=f
            ret: PathType segments=i32
            body: Block
              value: Match
                scrutinee: Path
                  segments: PathSegment name=x
                arms[0]: Arm
                  pattern: VariantPattern variant=Ok
                    enum: PathSegment name=Result
                      args[0]: PathType segments=i32
                      args[1]: PathType segments=E
                    items: VariantPattern variant=Some
                      items: NamePattern name=v
                  body: Block
                    value: Path
                      segments: PathSegment name=v
                arms[1]: Arm
                  pattern: VariantPattern variant=Net
                    enum: PathSegment name=handoff::Error
                    items: NamePattern name=e
                  body: Block
                    stmts: ExprStmt semi
                      expr: Call
                        callee: Path
                          segments: PathSegment name=g
                    value: Number value=1 text='1'
                arms[2]: Arm
                  pattern: VariantPattern variant=Red
                    enum: PathSegment name=Color
                  body: Block
                    stmts: Return
                      value: Number value=2 text='2'
                arms[3]: Arm
                  pattern: LiteralPattern negative
                    value: Number value=3 text='3'
                  body: Block
                    stmts: Assign
                      target: Path
                        segments: PathSegment name=y
                      value: Number value=4 text='4'
                arms[4]: Arm
                  pattern: LiteralPattern
                    value: StringLit value=b's'
                  body: Block
                    stmts: ExprStmt semi
                      expr: Number value=5 text='5'
                arms[5]: Arm
                  pattern: LiteralPattern
                    value: BoolLit value
                  body: Block
                    value: If
                      cond: Path
                        segments: PathSegment name=a
                      then: Block
                        value: Number value=7 text='7'
                      orelse: Block
                        value: Number value=8 text='8'
                arms[6]: Arm
                  pattern: NamePattern name=None
                  body: Block
                    value: Match
                      scrutinee: Path
                        segments: PathSegment name=b
                      arms: Arm
                        pattern: WildcardPattern
                        body: Block
                          value: Number value=9 text='9'
                arms[7]: Arm
                  pattern: WildcardPattern
                  body: Block
                    value: Number value=9 text='9'
        """,
    )


def test_types() -> None:
    expect(
        """
        fn f(a : &&mut i32, b : *mut *const i8, c : fn(i32, &T) -> void, d : |i32| -> i32, e : || -> i32,
             g : [i32; N + 1], h : (i32, f32), i : (i32), j : <4 x f32>, k : Ref<T, Memory::A>,
             l : Pinned<T, Topology::B[1]>, m : Verified<T>, n : Topology, o : Tensor<f32, []>, p : Tensor<f32>,
             q : Vec<Vec<i32>>, r : Buffer<Topology::GPU[0], 3, N * 2>, s : Matrix) -> void { }
        """,
        """
        Module
          items: Function name=f
            params[0]: Param name=a
              type: RefType
                inner: RefType mutable
                  inner: PathType segments=i32
            params[1]: Param name=b
              type: PtrType mutable
                inner: PtrType
                  inner: PathType segments=i8
            params[2]: Param name=c
              type: FnType
                params[0]: PathType segments=i32
                params[1]: RefType
                  inner: PathType segments=T
                ret: PathType segments=void
            params[3]: Param name=d
              type: FnType closure
                params: PathType segments=i32
                ret: PathType segments=i32
            params[4]: Param name=e
              type: FnType closure
                ret: PathType segments=i32
            params[5]: Param name=g
              type: ArrayType
                elem: PathType segments=i32
                length: Binary op=+
                  left: Path
                    segments: PathSegment name=N
                  right: Number value=1 text='1'
            params[6]: Param name=h
              type: TupleType
                items[0]: PathType segments=i32
                items[1]: PathType segments=f32
            params[7]: Param name=i
              type: PathType segments=i32
            params[8]: Param name=j
              type: VectorType length=4
                elem: PathType segments=f32
            params[9]: Param name=k
              type: WrapperType kind=Ref
                inner: PathType segments=T
                place: MemoryPlace name=A
            params[10]: Param name=l
              type: WrapperType kind=Pinned
                inner: PathType segments=T
                place: TopologyPlace name=B
                  index: Number value=1 text='1'
            params[11]: Param name=m
              type: WrapperType kind=Verified
                inner: PathType segments=T
            params[12]: Param name=n
              type: TopologyType
            params[13]: Param name=o
              type: TensorType dims=()
                elem: PathType segments=f32
            params[14]: Param name=p
              type: TensorType
                elem: PathType segments=f32
            params[15]: Param name=q
              type: PathType segments=Vec
                args: PathType segments=Vec
                  args: PathType segments=i32
            params[16]: Param name=r
              type: PathType segments=Buffer
                args[0]: PlaceValue
                  place: TopologyPlace name=GPU
                    index: Number value=0 text='0'
                args[1]: Number value=3 text='3'
                args[2]: Binary op=*
                  left: Path
                    segments: PathSegment name=N
                  right: Number value=2 text='2'
            params[17]: Param name=s
              type: PathType segments=Matrix
            ret: PathType segments=void
            body: Block
        """,
    )


def test_machine_declarations() -> None:
    expect(
        """
        /// The part's memory.
        Memory HBM {
            within: Memory::NODE, capacity: 40 GiB, bandwidth: 1555GB/s, clock: 1.41 GHz, granule: 2 MiB,
            managed: explicit, scope: device, crossing: streamed, reserve: 8%, replicas: 108
            overcommit
        }
        Topology Device {
            memory: Memory::HBM,
            visible: [Memory::HBM, Memory::L2,],
            arch: nvptx64 isa: sm_90
            dtypes: [f32, bf16],
            instances: 2,
            peer: 450 GB/s latency 10 us,
            transfer Memory::CPU_DRAM -> Memory::HBM : 63 GB/s latency 8 us relaxed copy_engine
            transfer Memory::HBM -> Memory::CPU_DRAM : 50 sync,
            transfer Memory::HBM -> Memory::L2
        }
        """,
        """
        Module
          items[0]: MemoryDecl name=HBM doc="The part's memory."
            fields[0]: DeclField name=within
              value: MemoryPlace name=NODE
            fields[1]: DeclField name=capacity
              value: Quantity number=40 unit=GiB
            fields[2]: DeclField name=bandwidth
              value: Quantity number=1555 unit=GB per=s
            fields[3]: DeclField name=clock
              value: Quantity number=1.41 unit=GHz
            fields[4]: DeclField name=granule
              value: Quantity number=2 unit=MiB
            fields[5]: DeclField name=managed value=explicit
            fields[6]: DeclField name=scope value=device
            fields[7]: DeclField name=crossing value=streamed
            fields[8]: DeclField name=reserve
              value: Quantity number=8 unit=%
            fields[9]: DeclField name=replicas
              value: Quantity number=108
            fields[10]: DeclField name=overcommit
          items[1]: TopologyDecl name=Device
            fields[0]: DeclField name=memory
              value: MemoryPlace name=HBM
            fields[1]: DeclField name=visible
              value[0]: MemoryPlace name=HBM
              value[1]: MemoryPlace name=L2
            fields[2]: DeclField name=arch value=nvptx64
            fields[3]: DeclField name=isa value=sm_90
            fields[4]: DeclField name=dtypes value=('f32', 'bf16')
            fields[5]: DeclField name=instances
              value: Quantity number=2
            fields[6]: DeclField name=peer
              value[0]: Quantity number=450 unit=GB per=s
              value[1]: Quantity number=10 unit=us
            edges[0]: Edge markers=('relaxed', 'copy_engine')
              source: MemoryPlace name=CPU_DRAM
              target: MemoryPlace name=HBM
              cost: Quantity number=63 unit=GB per=s
              latency: Quantity number=8 unit=us
            edges[1]: Edge markers=('sync',)
              source: MemoryPlace name=HBM
              target: MemoryPlace name=CPU_DRAM
              cost: Quantity number=50
            edges[2]: Edge
              source: MemoryPlace name=HBM
              target: MemoryPlace name=L2
        """,
    )


def test_names_of_machine_words_stay_usable() -> None:
    assert codes("fn capacity(within : i32, latency : i32) -> i32 { let reserve = within; reserve + latency }") == []
    assert codes("struct S { type : i32, role : i32, const_ : i32, memory : i32 }") == []
    assert codes("fn f() -> i32 { let a = s.type + s.role; a }") == []


def test_value_of_a_block() -> None:
    def value(body: str) -> str:
        module, reporter = parse(f"fn f() -> i32 {{ {body} }}")
        assert not reporter.diagnostics
        function = module.items[0]
        assert isinstance(function, ast.Function)
        return f"{len(function.body.stmts)} {type(function.body.value).__name__}"

    assert value("1; 2") == "1 Number"
    assert value("1; 2;") == "2 NoneType"
    assert value("if a { 1 } else { 2 }") == "0 If"
    assert value("if a { 1 } else { 2 };") == "1 NoneType"
    assert value("if a { 1 } -2") == "1 Unary"
    assert value("match a { _ => b }.c()") == "0 MethodCall"
    assert value("unsafe { f() } as i32") == "0 Cast"
    assert value("match a { _ => b }.c() + 1; 2") == "1 Number"
    assert value("x = 3;") == "1 NoneType"
    assert value('println!("a")') == "1 NoneType"


def test_loop_invariants_are_marked_as_unsupported() -> None:
    assert "Unsupported what='a loop invariant'" in tree("fn f() -> void { loop invariant(x > 0) { g(); } }")


def test_spans_cover_their_text() -> None:
    text = "fn f() -> i32 { let x = a.b(1) + t[2] as i64; g<3>(x) }"
    module, _ = parse(text)
    function = module.items[0]
    assert isinstance(function, ast.Function)
    let = function.body.stmts[0]
    assert isinstance(let, ast.Let) and isinstance(let.value, ast.Binary) and function.body.value is not None

    def at(node: ast.Node) -> str:
        return text[node.span.start : node.span.end]

    assert at(function) == text
    assert at(let) == "let x = a.b(1) + t[2] as i64;"
    assert at(let.value) == "a.b(1) + t[2] as i64"
    assert text[let.value.op_span.start : let.value.op_span.end] == "+"
    assert (at(let.value.left), at(let.value.right)) == ("a.b(1)", "t[2] as i64")
    assert at(function.body.value) == "g<3>(x)"
