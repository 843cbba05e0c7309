// Thrust: what removes, replaces, partitions, finds and makes elements, at several sizes.
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/generate.h>
#include <thrust/logical.h>
#include <thrust/partition.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/shuffle.h>
#include <thrust/random.h>
#include <thrust/uninitialized_copy.h>
#include <thrust/uninitialized_fill.h>
#include <thrust/unique.h>

#include "agree_thrust.h"

using namespace agree;

struct Big {
  __host__ __device__ bool operator()(int x) const { return x > 100000; }
};
struct Add {
  __device__ void operator()(int& x) const { x += 5; }
};
struct Seven {
  __device__ int operator()() const { return 7; }
};
template <class Pick>
std::vector<int> those(const std::vector<int>& in, Pick pick) {
  std::vector<int> out;
  std::copy_if(in.begin(), in.end(), std::back_inserter(out), pick);
  return out;
}

void removals(int size) {
  std::vector<int> in = runs<int>(size, 4, 1), stencil = values<int>(size, 0, 9, 2);
  std::vector<int> even = those(in, [](int x) { return !(x & 1); }), not_three = those(in, [](int x) { return x != 3; });
  std::vector<int> by_stencil, once(in);
  for (int i = 0; i < size; ++i)
    if (!(stencil[i] & 1)) by_stencil.push_back(in[i]);
  once.erase(std::unique(once.begin(), once.end()), once.end());
  Device source(in), with(stencil), out(size, -1), work(in);
  std::size_t left = thrust::remove(work.begin(), work.end(), 3) - work.begin();
  equal("remove", size, back(work, left), not_three);
  left = thrust::remove_copy(source.begin(), source.end(), out.begin(), 3) - out.begin();
  equal("remove_copy", size, back(out, left), not_three);
  left = thrust::remove_copy_if(source.begin(), source.end(), out.begin(), Odd()) - out.begin();
  equal("remove_copy_if", size, back(out, left), even);
  left = thrust::remove_copy_if(source.begin(), source.end(), with.begin(), out.begin(), Odd()) - out.begin();
  equal("remove_copy_if with a stencil", size, back(out, left), by_stencil);
  work = source;
  left = thrust::unique(work.begin(), work.end()) - work.begin();
  equal("unique", size, back(work, left), once);
  is_true("unique_count", size, thrust::unique_count(source.begin(), source.end()) == std::ptrdiff_t(once.size()));
}

void replacements(int size) {
  std::vector<int> in = values<int>(size, 0, 9, 3), three(in), odd(in);
  std::replace(three.begin(), three.end(), 3, -3);
  std::replace_if(odd.begin(), odd.end(), Odd(), -1);
  Device source(in), out(size), work(in);
  thrust::replace(work.begin(), work.end(), 3, -3);
  equal("replace", size, back(work, size), three);
  thrust::replace_copy(source.begin(), source.end(), out.begin(), 3, -3);
  equal("replace_copy", size, back(out, size), three);
  thrust::replace_copy_if(source.begin(), source.end(), out.begin(), Odd(), -1);
  equal("replace_copy_if", size, back(out, size), odd);
}

void partitions(int size) {
  std::vector<int> in = values<int>(size, -999, 999, 4);
  std::vector<int> odd = those(in, Odd()), even = those(in, [](int x) { return !(x & 1); }), both(odd);
  both.insert(both.end(), even.begin(), even.end());
  Device source(in), first(size), second(size), work(in);
  auto at = thrust::partition(work.begin(), work.end(), Odd());
  is_true("partition: where", size, at - work.begin() == std::ptrdiff_t(odd.size()));
  is_true("is_partitioned", size, thrust::is_partitioned(work.begin(), work.end(), Odd()));
  is_true("partition_point", size, thrust::partition_point(work.begin(), work.end(), Odd()) == at);
  std::vector<int> mixed = back(work, size), all(in);
  std::sort(mixed.begin(), mixed.end());
  std::sort(all.begin(), all.end());
  equal("partition: elements", size, mixed, all);
  auto ends = thrust::stable_partition_copy(source.begin(), source.end(), first.begin(), second.begin(), Odd());
  equal("stable_partition_copy: those", size, back(first, ends.first - first.begin()), odd);
  equal("stable_partition_copy: others", size, back(second, ends.second - second.begin()), even);
}

void queries(int size) {
  std::vector<int> in = values<int>(size, 0, 999, 5);
  in[size / 2] = 100001;
  Device source(in);
  int odd = std::count_if(in.begin(), in.end(), Odd()), three = std::count(in.begin(), in.end(), in[size / 3]);
  is_true("all_of", size, thrust::all_of(source.begin(), source.end(), Odd()) == (odd == size));
  is_true("none_of", size, !thrust::none_of(source.begin(), source.end(), Big()));
  is_true("count", size, thrust::count(source.begin(), source.end(), in[size / 3]) == three);
  is_true("find_if", size, thrust::find_if(source.begin(), source.end(), Big()) - source.begin() == size / 2);
  auto even = std::find_if_not(in.begin(), in.end(), Odd()) - in.begin();
  is_true("find_if_not", size, thrust::find_if_not(source.begin(), source.end(), Odd()) - source.begin() == even);
}

void making(int size) {
  std::vector<int> in = values<int>(size, -9, 9, 6), part(size, 0), plus(in);
  for (int i = 0; i < size / 2; ++i) part[i] = in[i], plus[i] += 5;
  Device source(in), out(size, 0);
  thrust::copy_n(source.begin(), size / 2, out.begin());
  equal("copy_n", size, back(out, size), part);
  thrust::for_each_n(source.begin(), size / 2, Add());
  equal("for_each_n", size, back(source, size), plus);
  thrust::fill_n(out.begin(), size / 2, 4);
  std::fill_n(part.begin(), size / 2, 4);
  equal("fill_n", size, back(out, size), part);
  thrust::generate_n(out.begin(), size / 2, Seven());
  std::fill_n(part.begin(), size / 2, 7);
  equal("generate_n", size, back(out, size), part);
  thrust::generate(out.begin(), out.end(), Seven());
  equal("generate", size, back(out, size), std::vector<int>(size, 7));
  thrust::uninitialized_fill(out.begin(), out.end(), 8);
  equal("uninitialized_fill", size, back(out, size), std::vector<int>(size, 8));
  thrust::uninitialized_fill_n(out.begin(), size, 9);
  equal("uninitialized_fill_n", size, back(out, size), std::vector<int>(size, 9));
  thrust::uninitialized_copy(source.begin(), source.end(), out.begin());
  equal("uninitialized_copy", size, back(out, size), plus);
  thrust::uninitialized_copy_n(source.begin(), size, out.begin());
  equal("uninitialized_copy_n", size, back(out, size), plus);
  thrust::shuffle(out.begin(), out.end(), thrust::default_random_engine(3));
  std::vector<int> mixed = back(out, size);
  std::sort(mixed.begin(), mixed.end());
  std::sort(plus.begin(), plus.end());
  equal("shuffle", size, mixed, plus);
  thrust::shuffle_copy(source.begin(), source.end(), out.begin(), thrust::default_random_engine(4));
  mixed = back(out, size);
  std::sort(mixed.begin(), mixed.end());
  equal("shuffle_copy", size, mixed, plus);
}

int main(int argument_count, char** arguments) {
  for (int size : sizes(argument_count, arguments, {1, 130, 1500}))
    removals(size), replacements(size), partitions(size), queries(size), making(size);
  return conclude();
}
