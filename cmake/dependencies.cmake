# What the build needs, each named with the command that installs it when it is missing. LLVM and the CUDA toolkit are
# optional: without LLVM there is no engine (no embedded device, no replay), without the toolkit no CUDA test programs
# and no embedded runtime.

function(deadheat_missing what packages)
  message(FATAL_ERROR "deadheat needs ${what}: apt-get install ${packages}")
endfunction()

find_package(Threads REQUIRED)
find_package(PkgConfig QUIET)

find_path(ZSTD_INCLUDE zstd.h)
find_library(ZSTD_LIBRARY zstd)
if(NOT ZSTD_INCLUDE OR NOT ZSTD_LIBRARY)
  deadheat_missing("zstd" "libzstd-dev")
endif()
add_library(deadheat_zstd INTERFACE)
target_include_directories(deadheat_zstd SYSTEM INTERFACE ${ZSTD_INCLUDE})
target_link_libraries(deadheat_zstd INTERFACE ${ZSTD_LIBRARY})

find_path(LZ4_INCLUDE lz4.h)
find_library(LZ4_LIBRARY lz4)
if(NOT LZ4_INCLUDE OR NOT LZ4_LIBRARY)
  deadheat_missing("lz4" "liblz4-dev")
endif()
add_library(deadheat_lz4 INTERFACE)
target_include_directories(deadheat_lz4 SYSTEM INTERFACE ${LZ4_INCLUDE})
target_link_libraries(deadheat_lz4 INTERFACE ${LZ4_LIBRARY})

find_path(XXHASH_INCLUDE xxhash.h)
if(NOT XXHASH_INCLUDE)
  deadheat_missing("xxhash" "libxxhash-dev")
endif()
add_library(deadheat_xxhash INTERFACE)
target_include_directories(deadheat_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE})
target_compile_definitions(deadheat_xxhash INTERFACE XXH_INLINE_ALL)

find_package(fmt QUIET)
if(NOT fmt_FOUND)
  deadheat_missing("fmt" "libfmt-dev")
endif()
find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  deadheat_missing("nlohmann-json" "nlohmann-json3-dev")
endif()
find_package(Boost QUIET COMPONENTS program_options)
if(NOT Boost_FOUND)
  deadheat_missing("Boost.Program_options" "libboost-program-options-dev")
endif()

find_package(LLVM QUIET CONFIG PATHS /usr/lib/llvm-19 NO_DEFAULT_PATH)
if(NOT LLVM_FOUND)
  find_package(LLVM QUIET CONFIG)
endif()
if(LLVM_FOUND AND NOT LLVM_VERSION_MAJOR EQUAL 19)
  message(WARNING "LLVM ${LLVM_PACKAGE_VERSION} is not LLVM 19")
  set(LLVM_FOUND FALSE)
endif()
if(LLVM_FOUND)
  add_library(deadheat_llvm INTERFACE)
  target_include_directories(deadheat_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(deadheat_llvm INTERFACE ${LLVM_DEFINITIONS})
  # A library in somebody else's process must not bring LLVM along for all to see: Triton has one of its own, whose
  # symbols would be taken from here. Targets with the property DEADHEAT_OWN_LLVM have it in themselves. So has the
  # command, which starts sooner without the whole of it, and needs fewer libraries where it is copied to.
  set(own_llvm LLVM)
  if(EXISTS ${LLVM_LIBRARY_DIR}/libLLVMOrcJIT.a)
    llvm_map_components_to_libnames(own_llvm orcjit native passes symbolize)
  else()
    message(WARNING "no static LLVM: programs that load another LLVM crash on the embedded device")
  endif()
  target_link_libraries(deadheat_llvm INTERFACE
    "$<IF:$<BOOL:$<TARGET_PROPERTY:DEADHEAT_OWN_LLVM>>,${own_llvm},LLVM>")
  target_link_directories(deadheat_llvm INTERFACE ${LLVM_LIBRARY_DIRS})
  # replay/engine/no_destruction.cpp; the command waits for its threads, and ends like any other program.
  target_link_options(deadheat_llvm INTERFACE
    "$<$<AND:$<BOOL:$<TARGET_PROPERTY:DEADHEAT_OWN_LLVM>>,$<STREQUAL:$<TARGET_PROPERTY:TYPE>,SHARED_LIBRARY>>:-Wl,--wrap=__cxa_atexit>")
else()
  message(WARNING "no LLVM 19: building without the engine, the embedded device and replay "
                  "(apt-get install llvm-19-dev)")
endif()

find_program(NVCC nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
if(NVCC)
  get_filename_component(CUDA_ROOT ${NVCC} REALPATH)
  get_filename_component(CUDA_ROOT ${CUDA_ROOT} DIRECTORY)
  get_filename_component(CUDA_ROOT ${CUDA_ROOT} DIRECTORY)
  find_path(CUDA_INCLUDE cuda_runtime_api.h HINTS ${CUDA_ROOT}/include ${CUDA_ROOT}/targets/x86_64-linux/include)
endif()
if(NOT CUDA_INCLUDE)
  message(WARNING "no CUDA toolkit: building without the embedded runtime and the CUDA test programs "
                  "(install CUDA 13, or set CUDA_HOME)")
endif()
