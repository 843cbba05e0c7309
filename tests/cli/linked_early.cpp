// Calls a library that it is linked with (library.cu).
extern "C" int reversed_numbers();

int main() { return reversed_numbers(); }
