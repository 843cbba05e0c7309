// What a report says of a flag that was written and read between two accesses, and does not order them
// (analyzer/detect/explain_messages.cpp). x is data, y a flag or a lock.
#include <gtest/gtest.h>

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

} // namespace
} // namespace deadheat::test
