#include "examples/train/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace train {
namespace {

using Hidden = std::array<float, kNumHidden>;
using Classes = std::array<float, kNumClasses>;

// Keeps the loss finite where a probability underflows.
constexpr float kTiny = std::numeric_limits<float>::min();

// Parts of a flat array. T is float or const float.
template <typename T>
struct Layers {
  explicit Layers(absl::Span<T> flat)
      : hidden_weights(flat.data()),
        hidden_biases(hidden_weights + kNumHidden * kNumPixels),
        output_weights(hidden_biases + kNumHidden),
        output_biases(output_weights + kNumClasses * kNumHidden) {}

  T* HiddenRow(int unit) const { return hidden_weights + unit * kNumPixels; }
  T* OutputRow(int label) const { return output_weights + label * kNumHidden; }

  T* const hidden_weights;
  T* const hidden_biases;
  T* const output_weights;
  T* const output_biases;
};

// Output of the network for one image.
struct Activations {
  Hidden hidden;
  Classes probabilities;
};

void Softmax(Classes& values) {
  const float largest = *std::max_element(values.begin(), values.end());
  float sum = 0;
  for (float& value : values) sum += value = std::exp(value - largest);
  for (float& value : values) value /= sum;
}

Activations Forward(const Layers<const float>& layers, const Example& example) {
  Activations result;
  for (int unit = 0; unit < kNumHidden; ++unit) {
    float sum = layers.hidden_biases[unit];
    const float* weights = layers.HiddenRow(unit);
    for (int i = 0; i < kNumPixels; ++i) sum += weights[i] * example.pixels[i];
    result.hidden[unit] = std::max(sum, 0.0f);
  }
  for (int label = 0; label < kNumClasses; ++label) {
    float sum = layers.output_biases[label];
    const float* weights = layers.OutputRow(label);
    for (int i = 0; i < kNumHidden; ++i) sum += weights[i] * result.hidden[i];
    result.probabilities[label] = sum;
  }
  Softmax(result.probabilities);
  return result;
}

double LossOf(const Classes& probabilities, const Example& example) {
  return -std::log(std::max(probabilities[example.label], kTiny));
}

// Derivatives of one example's loss by the inputs of the output units, times
// `weight`.
Classes OutputErrors(const Classes& probabilities, const Example& example,
                     float weight) {
  Classes errors;
  for (int label = 0; label < kNumClasses; ++label) {
    const float wanted = label == example.label ? 1 : 0;
    errors[label] = weight * (probabilities[label] - wanted);
  }
  return errors;
}

Hidden HiddenErrors(const Layers<const float>& layers, const Hidden& hidden,
                    const Classes& output_errors) {
  Hidden errors = {};
  for (int label = 0; label < kNumClasses; ++label) {
    for (int i = 0; i < kNumHidden; ++i) {
      errors[i] += output_errors[label] * layers.OutputRow(label)[i];
    }
  }
  for (int unit = 0; unit < kNumHidden; ++unit) {
    if (hidden[unit] == 0) errors[unit] = 0;
  }
  return errors;
}

// Adds one example's part to a gradient: a layer's errors to the gradient of
// its biases, or a unit's error times its inputs to the gradient of its
// weights.
template <size_t kNumUnits, size_t kNumInputs>
void Accumulate(const std::array<float, kNumUnits>& errors,
                const std::array<float, kNumInputs>& inputs,
                std::optional<int> unit, absl::Span<float> gradient) {
  if (!unit.has_value()) {
    for (size_t i = 0; i < kNumUnits; ++i) gradient[i] += errors[i];
    return;
  }
  const float error = errors[*unit];
  if (error == 0) return;  // True for units with output 0.
  for (size_t i = 0; i < kNumInputs; ++i) gradient[i] += error * inputs[i];
}

std::vector<Part> MakeParts() {
  std::vector<Part> parts;
  int begin = 0;
  const auto add = [&](Part part, int size) {
    part.begin = begin;
    part.size = size;
    begin += size;
    parts.push_back(std::move(part));
  };
  const auto add_layer = [&](const std::string& name, Layer layer,
                             int num_units, int num_inputs) {
    for (int unit = 0; unit < num_units; ++unit) {
      add({absl::StrCat(name, "/weights/", unit), layer, unit}, num_inputs);
    }
    add({name + "/biases", layer}, num_units);
  };
  add_layer("hidden", Layer::kHidden, kNumHidden, kNumPixels);
  add_layer("output", Layer::kOutput, kNumClasses, kNumHidden);
  return parts;
}

}  // namespace

const std::vector<Part>& Parts() {
  static const std::vector<Part> parts = MakeParts();
  return parts;
}

Backpropagation::Backpropagation(absl::Span<const float> parameters,
                                 absl::Span<const Example> examples)
    : examples_(examples) {
  const Layers<const float> layers(parameters);
  const float weight = 1 / static_cast<float>(examples.size());
  passes_.reserve(examples.size());
  for (const Example& example : examples) {
    const Activations activations = Forward(layers, example);
    loss_ += LossOf(activations.probabilities, example);
    const Classes output =
        OutputErrors(activations.probabilities, example, weight);
    passes_.push_back({activations.hidden,
                       HiddenErrors(layers, activations.hidden, output),
                       output});
  }
  loss_ /= static_cast<double>(examples.size());
}

void Backpropagation::Compute(const Part& part,
                              absl::Span<float> gradient) const {
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for (size_t i = 0; i < passes_.size(); ++i) {
    const Pass& pass = passes_[i];
    if (part.layer == Layer::kHidden) {
      Accumulate(pass.hidden_errors, examples_[i].pixels, part.unit, gradient);
    } else {
      Accumulate(pass.output_errors, pass.activations, part.unit, gradient);
    }
  }
}

std::vector<float> InitialParameters(uint32_t seed) {
  std::mt19937 generator(seed);
  // He initialisation, uniform. The upper 24 bits of a draw fit a float. The
  // distributions of <random> differ between libraries, so they are not used.
  const auto fill = [&generator](float* weights, int count, int num_inputs) {
    const float bound = std::sqrt(6.0f / static_cast<float>(num_inputs));
    for (float& weight : absl::MakeSpan(weights, count)) {
      const float draw = static_cast<float>(generator() >> 8) * 0x1p-24f;
      weight = (2 * draw - 1) * bound;
    }
  };
  std::vector<float> parameters(kNumParameters, 0.0f);
  const Layers<float> layers(absl::MakeSpan(parameters));
  fill(layers.hidden_weights, kNumHidden * kNumPixels, kNumPixels);
  fill(layers.output_weights, kNumClasses * kNumHidden, kNumHidden);
  return parameters;
}

double ComputeGradient(absl::Span<const float> parameters,
                       absl::Span<const Example> examples,
                       absl::Span<float> gradient) {
  const Backpropagation backpropagation(parameters, examples);
  for (const Part& part : Parts()) {
    backpropagation.Compute(part, gradient.subspan(part.begin, part.size));
  }
  return backpropagation.loss();
}

Quality Evaluate(absl::Span<const float> parameters,
                 absl::Span<const Example> examples) {
  const Layers<const float> layers(parameters);
  const double weight = 1.0 / static_cast<double>(examples.size());
  Quality quality;
  for (const Example& example : examples) {
    const Classes p = Forward(layers, example).probabilities;
    quality.loss += weight * LossOf(p, example);
    if (std::max_element(p.begin(), p.end()) - p.begin() == example.label) {
      quality.accuracy += weight;
    }
  }
  return quality;
}

double Norm(absl::Span<const float> values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

float LargestDifference(absl::Span<const float> a, absl::Span<const float> b) {
  float largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

}  // namespace train
