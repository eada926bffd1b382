; Arrays and lists as Numba's machine code allocates them, so that an object file needs no part of Numba.
; After Numba's nrt.cpp (BSD 2-Clause): a count of references, a destructor and its argument, an address, a size.

%memory = type { i64, i8*, i8*, i8*, i64 }

declare i8* @malloc(i64)
declare i8* @realloc(i8*, i64)
declare void @free(i8*)

; References are counted by plain additions: only one thread knows what a call allocates.
define void @NRT_incref(i8* %at) {
  %none = icmp eq i8* %at, null
  br i1 %none, label %last, label %counted
counted:
  %references = bitcast i8* %at to i64*
  %before = load i64, i64* %references
  %after = add i64 %before, 1
  store i64 %after, i64* %references
  br label %last
last:
  ret void
}

define void @NRT_decref(i8* %at) {
  %none = icmp eq i8* %at, null
  br i1 %none, label %last, label %counted
counted:
  %references = bitcast i8* %at to i64*
  %before = load i64, i64* %references
  %after = sub i64 %before, 1
  store i64 %after, i64* %references
  %unused = icmp eq i64 %after, 0
  br i1 %unused, label %destroyed, label %last
destroyed:
  call void @NRT_MemInfo_call_dtor(i8* %at)
  br label %last
last:
  ret void
}

define i8* @NRT_MemInfo_data_fast(i8* %at) {
  %memory = bitcast i8* %at to %memory*
  %where = getelementptr %memory, %memory* %memory, i32 0, i32 3
  %numbers = load i8*, i8** %where
  ret i8* %numbers
}

define i8* @NRT_Allocate(i64 %size) {
  %at = call i8* @malloc(i64 %size)
  ret i8* %at
}

define void @NRT_Free(i8* %at) {
  call void @free(i8* %at)
  ret void
}

; Numbers of an array, behind their %memory in one piece.
define i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align) {
  %align64 = zext i32 %align to i64
  %before = add i64 %align64, 63
  %whole = add i64 %size, %before
  %at = call i8* @malloc(i64 %whole)
  %none = icmp eq i8* %at, null
  br i1 %none, label %failed, label %filled
failed:
  ret i8* null
filled:
  %begin = ptrtoint i8* %at to i64
  %behind = add i64 %begin, %before
  %mask = sub i64 0, %align64
  %aligned = and i64 %behind, %mask
  %numbers = inttoptr i64 %aligned to i8*
  %memory = bitcast i8* %at to %memory*
  %new = insertvalue %memory { i64 1, i8* null, i8* null, i8* null, i64 0 }, i8* %numbers, 3
  %sized = insertvalue %memory %new, i64 %size, 4
  store %memory %sized, %memory* %memory
  ret i8* %at
}

define i8* @NRT_MemInfo_alloc_safe_aligned(i64 %size, i32 %align) {
  %at = call i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 %align)
  ret i8* %at
}

define i8* @NRT_MemInfo_alloc(i64 %size) {
  %at = call i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 16)
  ret i8* %at
}

define i8* @NRT_MemInfo_alloc_safe(i64 %size) {
  %at = call i8* @NRT_MemInfo_alloc_aligned(i64 %size, i32 16)
  ret i8* %at
}

; Entries of a list, in a piece of their own that may be replaced by a longer one.
define i8* @NRT_MemInfo_new_varsize(i64 %size) {
  %at = call i8* @NRT_MemInfo_new_varsize_dtor(i64 %size, i8* null)
  ret i8* %at
}

define i8* @NRT_MemInfo_new_varsize_dtor(i64 %size, i8* %of_entries) {
  %at = call i8* @malloc(i64 40)
  %none = icmp eq i8* %at, null
  br i1 %none, label %failed, label %begun
begun:
  %entries = call i8* @malloc(i64 %size)
  %nowhere = icmp eq i8* %entries, null
  br i1 %nowhere, label %given_back, label %filled
given_back:
  call void @free(i8* %at)
  br label %failed
failed:
  ret i8* null
filled:
  %memory = bitcast i8* %at to %memory*
  %own = bitcast void (i8*, i64, i8*)* @volvelle_free_list to i8*
  %new = insertvalue %memory { i64 1, i8* null, i8* null, i8* null, i64 0 }, i8* %own, 1
  %with = insertvalue %memory %new, i8* %of_entries, 2
  %there = insertvalue %memory %with, i8* %entries, 3
  %sized = insertvalue %memory %there, i64 %size, 4
  store %memory %sized, %memory* %memory
  ret i8* %at
}

define void @volvelle_free_list(i8* %entries, i64 %size, i8* %of_entries) {
  %plain = icmp eq i8* %of_entries, null
  br i1 %plain, label %last, label %each
each:
  %destroy = bitcast i8* %of_entries to void (i8*)*
  call void %destroy(i8* %entries)
  br label %last
last:
  call void @free(i8* %entries)
  ret void
}

define i8* @NRT_MemInfo_varsize_realloc(i8* %at, i64 %size) {
  %memory = bitcast i8* %at to %memory*
  %where = getelementptr %memory, %memory* %memory, i32 0, i32 3
  %before = load i8*, i8** %where
  %entries = call i8* @realloc(i8* %before, i64 %size)
  %none = icmp eq i8* %entries, null
  br i1 %none, label %failed, label %moved
failed:
  ret i8* null
moved:
  store i8* %entries, i8** %where
  %size_at = getelementptr %memory, %memory* %memory, i32 0, i32 4
  store i64 %size, i64* %size_at
  ret i8* %entries
}

define void @NRT_MemInfo_call_dtor(i8* %at) noinline cold {
  %memory = bitcast i8* %at to %memory*
  %whole = load %memory, %memory* %memory
  %destructor = extractvalue %memory %whole, 1
  %none = icmp eq i8* %destructor, null
  br i1 %none, label %last, label %first
first:
  %destroy = bitcast i8* %destructor to void (i8*, i64, i8*)*
  %numbers = extractvalue %memory %whole, 3
  %size = extractvalue %memory %whole, 4
  %info = extractvalue %memory %whole, 2
  call void %destroy(i8* %numbers, i64 %size, i8* %info)
  br label %last
last:
  call void @free(i8* %at)
  ret void
}

; Steps in bytes of an array in C order in another shape; 0 where the array is not in that order.
define i32 @numba_attempt_nocopy_reshape(i64 %n, i64* %dims, i64* %steps, i64 %m, i64* %new_dims,
                                         i64* %new_steps, i64 %itemsize, i32 %fortran) {
start:
  br label %check
check:
  %i = phi i64 [ %n, %start ], [ %i_less, %same ]
  %step = phi i64 [ %itemsize, %start ], [ %step_more, %same ]
  %checked = icmp eq i64 %i, 0
  br i1 %checked, label %write, label %compare
compare:
  %i_less = sub i64 %i, 1
  %dim_at = getelementptr i64, i64* %dims, i64 %i_less
  %dim = load i64, i64* %dim_at
  %step_at = getelementptr i64, i64* %steps, i64 %i_less
  %found = load i64, i64* %step_at
  %step_more = mul i64 %step, %dim
  %equal = icmp eq i64 %found, %step
  %short = icmp ule i64 %dim, 1
  %fits = or i1 %equal, %short
  br i1 %fits, label %same, label %other
same:
  br label %check
other:
  ret i32 0
write:
  %j = phi i64 [ %m, %check ], [ %j_less, %next ]
  %new = phi i64 [ %itemsize, %check ], [ %new_more, %next ]
  %written = icmp eq i64 %j, 0
  br i1 %written, label %done, label %next
next:
  %j_less = sub i64 %j, 1
  %new_dim_at = getelementptr i64, i64* %new_dims, i64 %j_less
  %new_dim = load i64, i64* %new_dim_at
  %new_step_at = getelementptr i64, i64* %new_steps, i64 %j_less
  store i64 %new, i64* %new_step_at
  %new_more = mul i64 %new, %new_dim
  br label %write
done:
  ret i32 1
}
