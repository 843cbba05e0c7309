find_package(rapidcheck QUIET)
if(NOT rapidcheck_FOUND)
  deadheat_missing("RapidCheck" "librapidcheck-dev")
endif()
deadheat_test(trace_test trace_damage.cpp trace_merge.cpp trace_roundtrip.cpp trace_writing.cpp
              LIBS deadheat_trace deadheat_xxhash rapidcheck)
deadheat_together(trace_test trace_damage.cpp trace_merge.cpp trace_roundtrip.cpp trace_writing.cpp)
