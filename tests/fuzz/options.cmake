deadheat_fuzz(fuzz_options fuzz_options.cpp LIBS deadheat_headers)
