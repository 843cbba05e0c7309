# The reader alone: no engine, so that the target builds without LLVM.
deadheat_fuzz(fuzz_witness fuzz_witness.cpp LIBS deadheat_headers deadheat_xxhash deadheat_zstd
                                                 nlohmann_json::nlohmann_json fmt::fmt)
if(DEADHEAT_FUZZ)
  target_sources(fuzz_witness PRIVATE ${PROJECT_SOURCE_DIR}/replay/search/witness.cpp
                                      ${PROJECT_SOURCE_DIR}/replay/search/manifest.cpp)
endif()
