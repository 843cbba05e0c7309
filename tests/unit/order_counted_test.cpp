#include "analyzer/order/counted.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace deadheat::test {
namespace {

using namespace deadheat::order;

struct Thing : Counted<Thing> {
  explicit Thing(int* alive = nullptr) : alive_(alive) {
    if (alive_) ++*alive_;
  }
  ~Thing() {
    if (alive_) --*alive_;
  }
  int* alive_;
};
using Pointer = boost::intrusive_ptr<const Thing>;

TEST(Counted, LivesAsLongAsSomebodyRefersToIt) {
  int alive = 0;
  Pointer a = make_counted<Thing>(&alive);
  {
    const Pointer b = a;
    a = nullptr;
    EXPECT_EQ(alive, 1);
    a = b;
  }
  EXPECT_EQ(alive, 1);
  a = make_counted<Thing>(&alive);
  EXPECT_EQ(alive, 1);
  a = nullptr;
  EXPECT_EQ(alive, 0);
}

TEST(Counted, ACopyIsAnObjectOfItsOwn) {
  struct Number : Counted<Number> {
    int value = 0;
  };
  const auto a = make_counted<Number>();
  a->value = 7;
  const boost::intrusive_ptr<Number> another = a;
  {
    const auto copy = make_counted<Number>(*a);
    EXPECT_EQ(copy->value, 7);
    copy->value = 8;
    *a = *copy; // as many refer to each as before
  }
  EXPECT_EQ(another->value, 8);
}

TEST(Counted, MemoryIsUsedAgain) {
  std::set<const void*> places;
  std::vector<Pointer> all;
  const auto make = [&] {
    for (int i = 0; i < 100; ++i) all.push_back(make_counted<Thing>());
  };
  make();
  for (const Pointer& thing : all) places.insert(thing.get());
  EXPECT_EQ(places.size(), 100u);
  all.clear();
  make();
  for (const Pointer& thing : all) EXPECT_EQ(places.count(thing.get()), 1u);
}

// Far more than is kept, made by a thread that is over before they are destroyed. (What is lost, AddressSanitizer
// says.)
TEST(Counted, WhatAThreadMadeOutlivesIt) {
  int alive = 0;
  std::vector<Pointer> all;
  const auto make = [&] {
    for (int i = 0; i < 10'000; ++i) all.push_back(make_counted<Thing>(&alive));
  };
  std::thread([&] {
    make();
    all.clear();
    make();
  }).join();
  EXPECT_EQ(alive, 10'000);
  all.clear();
  EXPECT_EQ(alive, 0);
  make();
  EXPECT_EQ(alive, 10'000);
}

} // namespace
} // namespace deadheat::test
