# Tests of tracer/ptx. The corpus: PTX that nvcc makes of data/ptx/*.cu for several architectures.
set(ptx_corpus_files)
set(ptx_nvcc)
if(NVCC)
  set(ptx_nvcc ${NVCC})
  set(ptx_corpus ${CMAKE_CURRENT_BINARY_DIR}/ptx_corpus)
  file(MAKE_DIRECTORY ${ptx_corpus})
  file(GLOB ptx_corpus_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/data/ptx/*.cu)
  foreach(source ${ptx_corpus_sources})
    get_filename_component(name ${source} NAME_WE)
    foreach(architecture 75 80 90 90a 100)
      add_custom_command(
        OUTPUT ${ptx_corpus}/${name}.${architecture}.ptx
        COMMAND ${NVCC} -std=c++17 -lineinfo -arch=compute_${architecture} -ptx ${source}
                -o ${ptx_corpus}/${name}.${architecture}.ptx
        DEPENDS ${source}
        COMMENT "nvcc ${name} for compute_${architecture}"
        VERBATIM)
      list(APPEND ptx_corpus_files ${ptx_corpus}/${name}.${architecture}.ptx)
    endforeach()
  endforeach()
  add_custom_target(ptx_corpus ALL DEPENDS ${ptx_corpus_files})
endif()

deadheat_test(ptx_test
  ptx_parse.cpp ptx_errors.cpp ptx_corpus.cpp ptx_flow.cpp ptx_sites.cpp ptx_demangle.cpp ptx_fatbin.cpp ptx_mutations.cpp ptx_turnstile.cpp ptx_link.cpp ptx_surroundings.cpp ptx_debug_info.cpp ptx_taken.cpp ptx_uses.cpp ptx_polls.cpp ptx_flagged_reads.cpp
  LIBS deadheat_ptx)
target_sources(ptx_test PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_ptx.cpp ${PROJECT_SOURCE_DIR}/tests/fuzz/fuzz_fatbin.cpp)
deadheat_together(ptx_test ptx_corpus.cpp ptx_debug_info.cpp ptx_demangle.cpp ptx_errors.cpp ptx_fatbin.cpp
                  ptx_flow.cpp ptx_link.cpp)
deadheat_together(ptx_test ptx_mutations.cpp ptx_parse.cpp ptx_polls.cpp ptx_flagged_reads.cpp ptx_sites.cpp ptx_surroundings.cpp
                  ptx_taken.cpp ptx_turnstile.cpp ptx_uses.cpp)
target_include_directories(ptx_test PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit)
target_compile_definitions(ptx_test PRIVATE
  PTX_DATA="${PROJECT_SOURCE_DIR}/tests/unit/data"
  PTX_CORPUS="${CMAKE_CURRENT_BINARY_DIR}/ptx_corpus"
  PTX_PROGRAMS="${PROJECT_BINARY_DIR}/tests/programs"
  PTX_NVCC="${ptx_nvcc}")
if(TARGET ptx_corpus)
  add_dependencies(ptx_test ptx_corpus)
endif()

# Boxes of tensors.
deadheat_test(tensor_map_test tensor_map_test.cpp LIBS deadheat_ptx)
