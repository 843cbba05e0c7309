// What a report says of a flag that was written and read between two accesses, and does not order them
// (analyzer/detect/explain_messages.cpp). x is data, y a flag or a lock.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/unit/order_litmus.h"

namespace deadheat::test {
namespace {

void says(const std::string& why, const char* what) { EXPECT_NE(why.find(what), std::string::npos) << why; }
void not_says(const std::string& why, const char* what) { EXPECT_EQ(why.find(what), std::string::npos) << why; }

// A lock that goes from t0 to t1, past others of both blocks. They release and acquire, or do not.
std::string lock(bool released, bool acquired) {
  Litmus litmus(1);
  litmus.write(t0, x);
  if (released) litmus.fence(t0);
  litmus.atomic(t0, y);
  litmus.atomic(same_block, y).atomic(same_block, y); // another's turn
  litmus.atomic(t1, y);
  if (acquired) litmus.fence(t1);
  litmus.failed_cas(t2, y, relaxed, gpu); // who waits for its own
  litmus.read(t1, x);
  return litmus.why();
}

TEST(LitmusMessages, AreThoseOfTheTwoThreads) {
  const std::string unreleased = lock(false, true), unacquired = lock(true, false);
  says(unreleased, "but the write releases nothing");
  not_says(unreleased, "acquires nothing");
  not_says(unreleased, "another thread");
  says(unacquired, "but the read acquires nothing");
  not_says(unacquired, "releases nothing");
  not_says(unacquired, "another thread");
  const std::string neither = lock(false, false);
  says(neither, "but the write releases nothing");
  says(neither, "the read acquires nothing");
}

TEST(LitmusMessages, WhoFailedToSwapWroteNothing) {
  const std::string why =
      Litmus().write(t0, x).fence(t0).failed_cas(t0, y, relaxed, gpu).atomic(t1, y).fence(t1).read(t1, x).why();
  says(why, "no strong write after it is read before the second");
}

TEST(LitmusMessages, AnotherAnnouncesTooEarly) { // no barrier behind what the others of the block wrote
  const std::string why =
      Litmus().fence(t0).atomic(t0, y).write(same_block, x).fence(same_block).atomic(t1, y).fence(t1).read(t1, x).why();
  says(why, "but another thread than that of the first access writes it, and before that access");
  not_says(why, "alone orders nothing");
  // The first has no fence of its own: who announces has one.
  const std::string unfenced =
      Litmus().fence(t0).atomic(t0, y).write(same_block, x).atomic(t1, y).fence(t1).read(t1, x).why();
  says(unfenced, "but another thread than that of the first access writes it, and before that access");
  not_says(unfenced, "alone orders nothing");
}

// A lock that is given back without a barrier, and what the blocks count under it, which its holders read plainly.
TEST(LitmusMessages, ThePlainReadOfACounterIsNoLock) {
  const std::string why = Litmus()
                              .write(t0, x)
                              .atomic(same_block, z)
                              .atomic(same_block, y, release, gpu)
                              .atomic(t1, y, acquire, gpu)
                              .read(t1, z)
                              .read(t1, x)
                              .atomic(t2, z) // which races with its own block's read
                              .why();
  says(why, "but another thread than that of the first access writes it, and no barrier of its block comes before");
  not_says(why, "the read is a plain one");
}

TEST(LitmusMessages, OnlyOneThreadWaits) { // and no barrier behind its wait
  const std::string why = Litmus().read(t2, x).write(t0, x).write(t0, y, release, gpu).read(t1, y, acquire, gpu).why();
  says(why, "the block of the second writes at");
  says(why, "but another thread than that of the first access reads it, and the first access does not wait for that");
  says(Litmus().read(t1, x).write(t0, x).write(t0, y, release, gpu).read(t1, y, acquire, gpu).why(),
       "but the first access comes before that read");
}

TEST(LitmusMessages, WithinABlockTheyAreItsOwn) {
  const std::string why = Litmus()
                              .write(t0, x)
                              .fence(same_warp)
                              .write(same_warp, y, relaxed, cta)
                              .read(same_block, y, acquire, cta)
                              .read(same_block, x)
                              .why();
  says(why, "their block writes at");
  says(why, "but another thread than that of the first access writes it, and no barrier of its block comes before");
  not_says(why, "the block of the");
}

// Whose fence is missing, or too narrow.
std::string passed(std::optional<Scope> written, std::optional<Scope> read, std::uint32_t cluster = 1) {
  Litmus litmus(cluster);
  litmus.write(t0, x);
  if (written) litmus.fence(t0, *written, Ordering::sc);
  litmus.write(t0, y, vol, sys).read(t1, y, vol, sys);
  if (read) litmus.fence(t1, *read, Ordering::sc);
  return litmus.read(t1, x).why();
}

TEST(LitmusMessages, SayWhoseFenceIsMissing) {
  const char *of_write = "the write releases nothing: no fence (__threadfence) of its thread stands between the first",
             *of_read =
                 "the read acquires nothing: no fence (__threadfence) of its thread follows it before the second";
  const std::string none = passed({}, {}), no_write = passed({}, gpu), no_read = passed(gpu, {});
  says(none, of_write);
  says(none, of_read);
  says(no_write, of_write);
  not_says(no_write, "acquires nothing");
  says(no_read, of_read);
  not_says(no_read, "releases nothing");
}

TEST(LitmusMessages, SayWhoseFenceIsTooNarrow) {
  const std::string writer = passed(cta, gpu), reader = passed(gpu, cta), both = passed(cta, cta);
  says(writer, "before it has block (.cta) scope");
  not_says(writer, "after it");
  says(reader, "after it has block (.cta) scope");
  not_says(reader, "before it");
  says(both, "before it has block (.cta) scope");
  says(both, "after it has block (.cta) scope");
  const std::string half = passed(cta, {});
  says(half, "before it has block (.cta) scope");
  says(half, "the read acquires nothing");
  // A cluster is wide enough for its own blocks only.
  const std::string clusters = passed(cluster, gpu);
  says(clusters, "before it has cluster scope, and they are in different clusters");
  not_says(passed(cluster, {}, 2), "scope");
}

TEST(LitmusMessages, AWideFenceServesBesideANarrowOne) {
  const std::string why = Litmus()
                              .write(t0, x)
                              .fence(t0, gpu)
                              .fence(t0, cta)
                              .write(t0, y, relaxed, gpu)
                              .read(t1, y, relaxed, gpu)
                              .read(t1, x)
                              .why();
  says(why, "the read acquires nothing");
  not_says(why, "before it has");
}

TEST(LitmusMessages, FencesOnTheWrongSideOfTheFlag) {
  const std::string behind =
      Litmus().write(t0, x).write(t0, y, relaxed, gpu).fence(t0).read(t1, y, acquire, gpu).read(t1, x).why();
  says(behind, "the write releases nothing");
  says(behind, " comes behind it");
  const std::string ahead =
      Litmus().fence(t0).write(t0, x).write(t0, y, relaxed, gpu).read(t1, y, acquire, gpu).read(t1, x).why();
  says(ahead, " comes before both");
  const std::string looked =
      Litmus().write(t0, x).write(t0, y, release, gpu).fence(t1).read(t1, y, relaxed, gpu).read(t1, x).why();
  says(looked, "the read acquires nothing");
  says(looked, " comes before it");
  not_says(looked, "releases nothing");
}

TEST(LitmusMessages, FencesOfTheWrongKind) {
  const std::string acquires = Litmus()
                                   .write(t0, x)
                                   .fence(t0, gpu, acquire)
                                   .write(t0, y, relaxed, gpu)
                                   .read(t1, y, acquire, gpu)
                                   .read(t1, x)
                                   .why();
  says(acquires, "the write releases nothing: the fence at a.cu:0 before it only acquires");
  const std::string releases = Litmus()
                                   .write(t0, x)
                                   .write(t0, y, release, gpu)
                                   .read(t1, y, relaxed, gpu)
                                   .fence(t1, gpu, release)
                                   .read(t1, x)
                                   .why();
  says(releases, "the read acquires nothing: the fence at a.cu:0 after it only releases");
}

// A fence ahead of a barrier, by whoever wrote, is worth something to fences of the other side alone.
TEST(LitmusMessages, FencesOfAnotherThread) {
  const std::string acquired = Litmus()
                                   .write(same_block, x)
                                   .fence(same_block, gpu, Ordering::sc)
                                   .block_barrier(0)
                                   .write(t0, y, relaxed, gpu)
                                   .read(t1, y, acquire, gpu)
                                   .read(t1, x)
                                   .why();
  says(acquired, "the write releases nothing: the fence at a.cu:0 is another thread's");
  const std::string released = Litmus()
                                   .write(t0, x)
                                   .write(t0, y, release, gpu)
                                   .read(t1, y, relaxed, gpu)
                                   .block_barrier(1)
                                   .fence(t2, gpu, Ordering::sc)
                                   .read(t2, x)
                                   .why();
  says(released, "the read acquires nothing: the fence at a.cu:0 is another thread's");
  const std::string narrow = Litmus()
                                 .write(t0, x)
                                 .fence(t0, gpu, Ordering::sc)
                                 .write(t0, y, relaxed, gpu)
                                 .read(t1, y, relaxed, gpu)
                                 .block_barrier(1)
                                 .fence(t2, cta, Ordering::sc)
                                 .read(t2, x)
                                 .why();
  says(narrow, "behind the barrier after it has block (.cta) scope");
  not_says(narrow, "releases nothing");
  // Of the reader alone nothing is missing but its own.
  const std::string unheard = Litmus()
                                  .write(same_block, x)
                                  .fence(same_block, gpu, Ordering::sc)
                                  .block_barrier(0)
                                  .write(t0, y, relaxed, gpu)
                                  .read(t1, y, relaxed, gpu)
                                  .read(t1, x)
                                  .why();
  says(unheard, "the read acquires nothing: no fence");
  not_says(unheard, "releases nothing");
}

// "A release operation on M followed by a strong write on M in program order" is one pattern; stores of others end it.
TEST(LitmusMessages, StoresBehindARelease) {
  Litmus own;
  own.write(t0, x).write(t0, y, release, gpu).write(t0, y, relaxed, gpu).read(t1, y, relaxed, gpu).read(t1, x);
  says(own.why(), "the read acquires nothing");
  not_says(own.why(), "releases nothing");
  Litmus other;
  other.write(t0, x).write(t0, y, release, gpu).write(t2, y, relaxed, gpu).read(t1, y, acquire, gpu).read(t1, x);
  says(other.why(),
       "writes at a.cu:2 what the block of the second reads at a.cu:4, but the store at a.cu:3, by another");
  not_says(other.why(), "releases nothing");
  Litmus beside;
  beside.write(t0, x).write(t0, y, release, gpu).write(same_block, y, relaxed, gpu).read(t1, y, acquire, gpu);
  beside.read(t1, x);
  says(beside.why(), "the write is a store over what another thread released at a.cu:2");
  // It releases, too, but has not acquired.
  Litmus unheard;
  unheard.write(t0, x).write(t0, y, release, gpu).write(same_block, y, release, gpu).read(t1, y, acquire, gpu);
  unheard.read(t1, x);
  says(unheard.why(), "but the write is a store over what another thread released at a.cu:2");
  not_says(unheard.why(), "releases nothing");
}

TEST(LitmusMessages, TheReadersOwnLookIsNothingInBetween) {
  Litmus look;
  look.write(t0, x).fence(t0).atomic(t0, y).atomic(t1, y, relaxed, cta).fence(t1).read(t1, x);
  not_says(look.why(), "comes in between");
}

TEST(LitmusMessages, WhoLooksBehindTheAccess) { // another thread of its block, which it does not wait for
  const auto late = [](bool announced, bool barrier) {
    Litmus litmus;
    litmus.write(t0, x);
    if (announced) litmus.write(t0, y, release, gpu);
    litmus.read(t2, x);
    if (!announced) litmus.write(t0, y, release, gpu);
    if (barrier) litmus.block_barrier(1);
    return litmus.read(t1, y, acquire, gpu).why();
  };
  for (const bool announced : {false, true}) {
    says(late(announced, false),
         "but another thread than that of the second access reads it, and the second access does not wait for that");
    not_says(late(announced, true), "reads at");
  }
  says(Litmus().write(t0, x).write(t0, y, release, gpu).read(t1, x).read(t1, y, acquire, gpu).why(),
       "but the second access comes before that read");
}

// Within a warp a barrier has only its lanes wait.
TEST(LitmusMessages, WarpBarriersOfOthersHandNothingOn) {
  const std::string why = Litmus()
                              .write(same_warp, x)
                              .warp_barrier(0)
                              .fence(same_block)
                              .write(same_block, y, relaxed, gpu)
                              .read(t2, y, acquire, gpu)
                              .warp_barrier(1)
                              .read(t1, x)
                              .why();
  says(why, "another thread than that of the first access writes it, and no barrier of its block comes before");
  says(why, "another thread than that of the second access reads it, and no barrier of its block follows");
  const std::string within = Litmus()
                                 .write(same_warp, x)
                                 .warp_barrier(0)
                                 .fence(t0)
                                 .write(t0, y, relaxed, gpu)
                                 .read(t1, y, relaxed, gpu)
                                 .warp_barrier(1)
                                 .read({1, 1}, x)
                                 .why();
  says(within, "but the read acquires nothing");
  not_says(within, "another thread");
}

// Barriers of fewer threads than come to them.
TEST(LitmusMessages, PhasesOfABarrierThatOneSideEachComesTo) {
  const std::string why = Litmus().write(t0, x).sync(t0, 0).exit(t0).sync(same_block, 1).read(same_block, x).why();
  says(why, "the first in phase 0 of it");
  says(why, "and the second in phase 1");
  not_says(why, "has exited");
  says(Litmus().write(t0, x).exit(t0).block_barrier(0).read(same_block, x).why(), "the thread of the first has exited");
}

} // namespace
} // namespace deadheat::test
