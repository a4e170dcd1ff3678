# find_package(tvm_sparse_runtime): the target tvm_sparse::runtime, for C and C++.
# Where it lies: python -m tvm_sparse_runtime.config --cmakedir
get_filename_component(_tvm_sparse_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
set(tvm_sparse_runtime_PROGRAM "${_tvm_sparse_root}/bin/tvm_sparse_run")
if(NOT TARGET tvm_sparse::runtime)
  add_library(tvm_sparse::runtime SHARED IMPORTED)
  set_target_properties(tvm_sparse::runtime PROPERTIES
    IMPORTED_LOCATION "${_tvm_sparse_root}/lib/libtvm_sparse_runtime.so"
    INTERFACE_INCLUDE_DIRECTORIES "${_tvm_sparse_root}/include"
    # It finds TVM's libraries by itself when it runs; the linker need not look for them.
    INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined")
endif()
unset(_tvm_sparse_root)
