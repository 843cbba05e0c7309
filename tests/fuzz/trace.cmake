deadheat_fuzz(fuzz_trace fuzz_trace.cpp LIBS deadheat_trace deadheat_xxhash)
