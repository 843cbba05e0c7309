// Numbers and names in columns: what reports as text are made of.
//
// Widths are in characters of UTF-8, all taken to be of one column. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deadheat/trace.h"

namespace deadheat::report {

using Lines = std::vector<std::string>;

std::string number(std::uint64_t value);
std::string number(double value); // nine digits
std::string hexadecimal(std::uint64_t value); // with 0x
std::string triple(const Dim3& at); // (x,y,z)

std::size_t width_of(const std::string& text);
// Breaks at blanks; a word that does not fit is cut. `further` comes before each line but the first.
Lines wrapped(const std::string& text, std::size_t width, const std::string& further = "");
std::string cut(const std::string& text, std::size_t width); // what is longer ends in ~
std::string brief(const std::string& name, std::size_t width); // one that somebody is to recognize; whole in JSON

} // namespace deadheat::report
