// How long turnstiles and gates wait at most: a bound on every wait, about 0.1 s on a GPU. Looks are what is counted,
// so the bound holds on devices without a clock too.
#pragma once

#include <cstdint>

namespace deadheat::hardware {

inline constexpr std::uint32_t turnstile_looks = 20000, turnstile_sleep = 2000; // ns between looks, about
inline constexpr std::uint32_t gate_looks = 20000, gate_sleep = 5000;
inline constexpr std::uint32_t longest_delay = 100000; // ns in front of a site

} // namespace deadheat::hardware
