// What Python calls (emulated.py): the launches of csrc/cuda/launches.h on memory of the CPU. Each returns null, or what was raised.
#include "emulator.h"

#include <dlfcn.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cuda/launches.h"
#include "device.h"

using namespace sentinel;

namespace {

std::string raised;

template <typename Body>
const char* guarded(const Body& body) {
  try {
    body();
    return nullptr;
  } catch (const std::exception& error) {
    raised = error.what();
    return raised.c_str();
  }
}

}  // namespace

extern "C" {

void emulated_device(int processors, int major, int shared, int shared_of_block, bool clusters_fail) {
  emulator::device() = {processors, major, shared, shared_of_block, clusters_fail};
}

const char* emulated_add_norm(const void* x, const void* residual, const void* weight, const void* bias, void* y, void* h,
                              float* mean, float* rstd, double* stats, int64_t rows, int64_t width, float eps, int element,
                              int weight_element) {
  return guarded([&] {
    norm::ForwardPointers pointers{};
    pointers.x = x, pointers.residual = residual, pointers.weight = weight, pointers.bias = bias;
    pointers.y = y, pointers.h = h, pointers.mean = mean, pointers.rstd = rstd, pointers.stats = stats;
    pointers.rows = rows, pointers.width = width, pointers.eps = eps;
    pointers.element = Element(element), pointers.weight_element = Element(weight_element);
    const norm::Plan plan = norm::plan(pointers);
    std::vector<double> partials(size_t(norm::partial_doubles(plan)), NAN);
    pointers.partials = partials.data();
    norm::launch(pointers, plan);
  });
}

const char* emulated_add_norm_backward(const void* dy, const void* dh, const void* h, const void* weight, const float* mean,
                                       const float* rstd, void* dx, void* dweight, void* dbias, int64_t rows, int64_t width,
                                       int element, int weight_element) {
  return guarded([&] {
    norm::BackwardPointers pointers{};
    pointers.dy = dy, pointers.dh = dh, pointers.h = h, pointers.weight = weight, pointers.mean = mean, pointers.rstd = rstd;
    pointers.dx = dx, pointers.dweight = dweight, pointers.dbias = dbias, pointers.rows = rows, pointers.width = width;
    pointers.element = Element(element), pointers.weight_element = Element(weight_element);
    const norm::Plan plan = norm::plan(pointers);
    std::vector<float> slots(size_t(plan.blocks) * size_t(width) * 2, NAN);
    pointers.dweights = slots.data(), pointers.dbiases = dbias != nullptr ? slots.data() + slots.size() / 2 : nullptr;
    norm::launch(pointers, plan);
  });
}

// Plans every width from 1 to `widest`, each dtype of rows and weight, with and without residual or dh, bias and mean. A line for each
// launch that differs: the kernel's symbol, its threads, the dynamic shared memory that it is launched with, and what it was allowed
// before (-1: nothing); the widths from and to which that is so.
const char* emulated_norm_plans(int64_t widest, const char** lines) {
  static std::string text;
  text.clear();
  return guarded([&] {
    std::map<std::string, std::set<int64_t>> launches;
    alignas(16) static char place[16];
    static float mean[4];
    const auto note = [&](const norm::Plan& plan, int64_t width) {
      const auto& allowed = emulator::allowed_shared();
      const auto found = allowed.find(plan.kernel);
      Dl_info info{};
      if (dladdr(plan.kernel, &info) == 0 || info.dli_sname == nullptr) throw std::runtime_error("a kernel without a name");
      launches[std::string(info.dli_sname) + " " + std::to_string(plan.threads) + " " + std::to_string(plan.shared) + " " +
               std::to_string(found == allowed.end() ? -1 : found->second)].insert(width);
      emulator::allowed_shared().clear();  // as in a process that launches this alone
    };
    for (const Element element : {Element::FLOAT, Element::BFLOAT16, Element::HALF})
      for (const Element of_weight : {Element::FLOAT, element})
        for (int kind = 0; kind < 8; ++kind)
          for (int64_t width = 1; width <= widest; ++width) {
            norm::ForwardPointers forward{};
            forward.x = forward.weight = place, forward.y = place, forward.rstd = mean, forward.rows = 1 << 16, forward.width = width;
            forward.element = element, forward.weight_element = of_weight;
            if (kind & 1) forward.residual = place, forward.h = place;
            if (kind & 2) forward.bias = place;
            if (kind & 4) forward.mean = mean;
            note(norm::plan(forward), width);
            norm::BackwardPointers backward{};
            backward.dy = backward.h = backward.weight = place, backward.dx = backward.dweight = place, backward.rstd = mean;
            backward.rows = 1 << 16, backward.width = width, backward.element = element, backward.weight_element = of_weight;
            if (kind & 1) backward.dh = place;
            if (kind & 2) backward.dbias = place;
            if (kind & 4) backward.mean = mean;
            note(norm::plan(backward), width);
          }
    for (const auto& [launch, widths] : launches) {
      text += launch;
      for (auto width = widths.begin(); width != widths.end();) {
        const int64_t from = *width;
        int64_t to = from;
        while (++width != widths.end() && *width <= to + 8) to = *width;  // only every fourth or eighth width is in vectors
        text += " " + std::to_string(from) + "-" + std::to_string(to);
      }
      text += "\n";
    }
    *lines = text.c_str();
  });
}

const char* emulated_grad_stats(int64_t tensors, const void* const* data, const int64_t* sizes, const int* elements,
                                const float* inv_scale, double* out) {
  return guarded([&] {
    const Chunks chunks(std::vector<int64_t>(sizes, sizes + tensors));
    std::vector<Gradient> grads;
    for (int64_t number = 0; number < tensors; ++number) grads.push_back({data[number], Element(elements[number])});
    std::vector<double> slots(size_t(chunks.slot_rows(3)) * 3, NAN);
    launch_grad_stats(chunks, grads, inv_scale, slots.data(), out, 0, nullptr);
  });
}

// `state`: param, grad, first and second of each tensor.
const char* emulated_adamw_step(int64_t tensors, void* const* state, const int64_t* sizes, const double* decays, int grad_element,
                                const double* control, float* step, double* out) {
  return guarded([&] {
    const Chunks chunks(std::vector<int64_t>(sizes, sizes + tensors));
    std::vector<ParamState> all;
    for (int64_t number = 0; number < tensors; ++number) {
      void* const* const of = state + 4 * number;
      all.push_back({static_cast<float*>(of[0]), of[1], static_cast<float*>(of[2]), static_cast<float*>(of[3]), float(decays[number]),
                     Element(grad_element)});
    }
    std::vector<double> slots(size_t(chunks.slot_rows(4)) * 4, NAN);
    launch_adamw_step(chunks, all, control, step, slots.data(), out, 0, nullptr);
  });
}

const char* emulated_softmax_xent(const void* logits, void* dlogits, const int64_t* targets, const float* weight,
                                  const float* expected, float* losses, float* lse, float* total, float* mean, double* stats,
                                  double z_loss, int64_t ignore_index, int64_t rows, int columns, int element) {
  return guarded([&] {
    std::vector<double> slots(size_t(xent_slots(0)), NAN);
    XentCounts counts{NAN, NAN, 12345};
    const XentArguments arguments{logits, dlogits, targets, weight, expected, losses, lse, total, mean, stats, slots.data(), &counts,
                                  z_loss, ignore_index, rows, columns};
    launch_xent(arguments, Element(element), 0, nullptr);
  });
}

const char* emulated_scale(void* x, int64_t count, int element, const float* factor) {
  return guarded([&] { launch_scale(x, count, Element(element), factor, 0, nullptr); });
}

}  // extern "C"
