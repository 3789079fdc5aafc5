#include "examples/train/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>

namespace train {
namespace {

using Hidden = std::array<float, kNumHidden>;
using Classes = std::array<float, kNumClasses>;

// Keeps the loss finite where a probability underflows.
constexpr float kTiny = std::numeric_limits<float>::min();

// A flat array by its parts. T is float or const float.
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

// What the network makes of one image.
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

// Adds the gradient of one example's loss, times `weight`, to `gradient`.
void Backward(const Layers<const float>& layers, const Example& example,
              const Activations& activations, float weight,
              const Layers<float>& gradient) {
  Hidden hidden_error = {};
  for (int label = 0; label < kNumClasses; ++label) {
    const float wanted = label == example.label ? 1 : 0;
    const float error = weight * (activations.probabilities[label] - wanted);
    gradient.output_biases[label] += error;
    for (int i = 0; i < kNumHidden; ++i) {
      gradient.OutputRow(label)[i] += error * activations.hidden[i];
      hidden_error[i] += error * layers.OutputRow(label)[i];
    }
  }
  for (int unit = 0; unit < kNumHidden; ++unit) {
    if (activations.hidden[unit] == 0) continue;
    gradient.hidden_biases[unit] += hidden_error[unit];
    for (int i = 0; i < kNumPixels; ++i) {
      gradient.HiddenRow(unit)[i] += hidden_error[unit] * example.pixels[i];
    }
  }
}

}  // namespace

std::vector<float> InitialParameters(uint32_t seed) {
  std::mt19937 generator(seed);
  // He initialisation, uniform. The 24 upper bits of a draw fit a float; the
  // standard leaves the distributions of <random> to each library.
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
  const Layers<const float> layers(parameters);
  const float weight = 1 / static_cast<float>(examples.size());
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  double loss = 0;
  for (const Example& example : examples) {
    const Activations activations = Forward(layers, example);
    loss += LossOf(activations.probabilities, example);
    Backward(layers, example, activations, weight, Layers<float>(gradient));
  }
  return loss / static_cast<double>(examples.size());
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
