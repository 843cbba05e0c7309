// Turnstiles in PTX: what the rewritten text keeps, what it gains, and what is refused.
#include <gtest/gtest.h>

#include "tracer/ptx/parse.h"
#include "tracer/ptx/sites.h"
#include "tracer/ptx/turnstile.h"

namespace deadheat::ptx {
namespace {

constexpr const char* text = R"(.version 8.0
.target sm_80
.address_size 64

.func inner(.param .b64 at)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	ld.param.u64 %rd1, [at];
	ld.global.u32 %r1, [%rd1];
	ret;
}

.visible .entry calls(.param .u64 p)
{
	.reg .b64 %rd<2>;
	ld.param.u64 %rd1, [p];
	{
	.param .b64 a;
	st.param.b64 [a], %rd1;
	call.uni inner, (a);
	}
	ret;
}

.visible .entry stores(.param .u64 p)
{
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	.reg .pred %p<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.lt.u32 %p1, %r1, 7;
	@!%p1 st.global.u32 [%rd1], %r1;
	st.global.u32 [%rd1+4], %r1;
	ret;
}
)";

struct Parsed {
  Module module;
  SiteTable sites;
};

Parsed parsed(const std::string& of = text) {
  Expected<Module> module = parse(of, "test");
  EXPECT_TRUE(module) << (module ? "" : module.error().message());
  SiteTable sites = site_table(*module);
  return {*std::move(module), std::move(sites)};
}

std::uint32_t site(const SiteTable& sites, std::string_view opcode, std::uint32_t nth = 0) {
  for (const Site& site : sites.sites) {
    if (site.opcode == opcode && nth-- == 0) return site.id;
  }
  ADD_FAILURE() << "no " << opcode;
  return 0;
}

std::size_t count(const std::string& in, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++n;
  return n;
}

TEST(Turnstiles, originals_stay_and_both_sides_are_in_the_clone) {
  const Parsed p = parsed();
  const std::uint32_t first = site(p.sites, "st.global.u32"), second = site(p.sites, "st.global.u32", 1);
  Expected<std::string> with =
      add_turnstiles(p.module, p.sites, {{"stores", "__deadheat_1_", {{0, first, 3, 70, 2}, {1, second, 5, 8, 0}}}});
  ASSERT_TRUE(with) << with.error().message();
  EXPECT_TRUE(with->starts_with(text));
  const Parsed again = parsed(*with);
  const Function* clone = again.module.function("__deadheat_1_stores");
  ASSERT_NE(clone, nullptr);
  EXPECT_TRUE(clone->entry);
  EXPECT_EQ(clone->params.size(), 1u);
  EXPECT_NE(again.module.variable(turnstile_variable), nullptr);
  EXPECT_EQ(again.module.function("__deadheat_1_calls"), nullptr);
  const std::string added = with->substr(std::string(text).size());
  // Each waits for the other's ticket: side 0's is at 32 + 8, side 1's at 48 + 8.
  EXPECT_EQ(count(added, "ld.relaxed.gpu.global.u32 %dt_a, [%dt_control+56]"), 1u);
  EXPECT_EQ(count(added, "ld.relaxed.gpu.global.u32 %dt_a, [%dt_control+40]"), 1u);
  EXPECT_EQ(count(added, "st.relaxed.gpu.global.u32 [%dt_control+40]"), 1u);
  EXPECT_EQ(count(added, "st.relaxed.gpu.global.u32 [%dt_control+56]"), 1u);
  EXPECT_EQ(count(added, "%dt_thread, 70"), 1u);
  EXPECT_EQ(count(added, "%dt_warp, 2"), 1u);
  // The guard of the first store: a thread for which it is false does not execute the site.
  EXPECT_EQ(count(added, "not.pred %dt_q, %p1"), 1u);
}

TEST(Turnstiles, functions_that_hold_a_site_are_cloned_with_their_callers) {
  const Parsed p = parsed();
  Expected<std::string> with =
      add_turnstiles(p.module, p.sites, {{"calls", "__deadheat_4_", {{0, site(p.sites, "ld.global.u32"), 0, 0, 0}}}});
  ASSERT_TRUE(with) << with.error().message();
  const Parsed again = parsed(*with);
  ASSERT_NE(again.module.function("__deadheat_4_inner"), nullptr);
  EXPECT_TRUE(again.module.function("__deadheat_4_inner")->has_body);
  EXPECT_EQ(count(*with, "call.uni __deadheat_4_inner, (a);"), 1u);
  EXPECT_EQ(count(*with, "call.uni inner, (a);"), 1u);
}

TEST(Turnstiles, what_cannot_be_done_is_refused) {
  const Parsed p = parsed();
  const std::uint32_t load = site(p.sites, "ld.global.u32");
  EXPECT_FALSE(add_turnstiles(p.module, p.sites, {{"stores", "x", {{0, load, 0, 0, 0}}}}));  // not reached
  EXPECT_FALSE(add_turnstiles(p.module, p.sites, {{"nobody", "x", {{0, load, 0, 0, 0}}}}));
  EXPECT_FALSE(add_turnstiles(p.module, p.sites, {{"calls", "x", {{0, 1000, 0, 0, 0}}}}));
  EXPECT_FALSE(add_turnstiles(p.module, p.sites, {{"calls", "x", {{2, load, 0, 0, 0}}}}));
  std::string old = text;
  old.replace(old.find("8.0"), 3, "6.0");
  const Parsed before = parsed(old);
  EXPECT_FALSE(add_turnstiles(before.module, before.sites, {{"calls", "x", {{0, load, 0, 0, 0}}}}));
}

// A copy that is held back leaves its place and comes before the wait that covers it.
TEST(Turnstiles, copies_are_put_off) {
  const Parsed p = parsed(R"(.version 8.0
.target sm_80
.address_size 64
.visible .entry copies(.param .u64 p)
{
	.shared .align 16 .b8 s[16];
	.reg .b64 %rd<2>;
	.reg .b32 %r<2>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, s;
	cp.async.ca.shared.global [%r1], [%rd1+8], 4, 4;
	cp.async.commit_group;
	cp.async.wait_group 1;
	cp.async.wait_all;
	ret;
}
)");
  const std::uint32_t copy = site(p.sites, "cp.async.ca.shared.global");
  Expected<std::string> with = add_turnstiles(p.module, p.sites, {{"copies", "x_", {{0, copy, 0, 0, 0}}}});
  ASSERT_TRUE(with) << with.error().message();
  parsed(*with);
  EXPECT_EQ(count(*with, "add.u64 %dt_from0, %rd1, 8;"), 1u);
  EXPECT_EQ(count(*with, "cp.async.ca.shared.global [%dt_to0], [%dt_from0], 4, 4;"), 3u);  // two waits, one exit
  EXPECT_EQ(count(*with, "setp.ge.and.u32 %dt_q, %dt_groups0, 2, %dt_late0;"), 1u);  // one group may be pending
  EXPECT_EQ(count(*with, "setp.ge.and.u32 %dt_q, %dt_groups0, 0, %dt_late0;"), 2u);
}

}  // namespace
}  // namespace deadheat::ptx
