//! How far apart two colours look to people with normal colour vision, without red, or without green.

/// Kinds of colour vision.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Seen {
    WithAllColours,
    WithoutRed,
    WithoutGreen,
}

type Matrix = [[f64; 3]; 3];

impl Seen {
    pub(crate) const ALL: [Seen; 3] = [Seen::WithAllColours, Seen::WithoutRed, Seen::WithoutGreen];

    /// Applies to linear light. Machado, Oliveira, Fernandes: A Physiologically-based Model for Simulation of Color Vision Deficiency
    /// (2009), severity 1: protanopia, deuteranopia.
    fn matrix(self) -> Matrix {
        match self {
            Seen::WithAllColours => [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
            Seen::WithoutRed => [
                [0.152_286, 1.052_583, -0.204_868],
                [0.114_503, 0.786_281, 0.099_216],
                [-0.003_882, -0.048_116, 1.051_998],
            ],
            Seen::WithoutGreen => [
                [0.367_322, 0.860_646, -0.227_968],
                [0.280_085, 0.672_501, 0.047_413],
                [-0.011_820, 0.042_940, 0.968_881],
            ],
        }
    }
}

/// Distance between two sRGB colours (CIEDE2000): at 1 they can just be told apart side by side.
pub(crate) fn farness(one: [u8; 3], other: [u8; 3], seen: Seen) -> f64 {
    let [one, other] = [one, other].map(|colour| {
        let light = times(&seen.matrix(), colour.map(linear));
        lab(light.map(|part| part.clamp(0.0, 1.0)))
    });
    ciede2000(one, other)
}

fn linear(part: u8) -> f64 {
    let part = f64::from(part) / 255.0;
    match part <= 0.040_45 {
        true => part / 12.92,
        false => ((part + 0.055) / 1.055).powf(2.4),
    }
}

fn times(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
    matrix.map(|row| row.iter().zip(vector).map(|(factor, part)| factor * part).sum())
}

/// CIELAB, white point D65.
fn lab(light: [f64; 3]) -> [f64; 3] {
    const TO_XYZ: Matrix = [
        [0.412_456_4, 0.357_576_1, 0.180_437_5],
        [0.212_672_9, 0.715_152_2, 0.072_175_0],
        [0.019_333_9, 0.119_192_0, 0.950_304_1],
    ];
    const WHITE: [f64; 3] = [0.950_47, 1.0, 1.088_83];
    let [x, y, z] = times(&TO_XYZ, light);
    let [x, y, z] = [x / WHITE[0], y / WHITE[1], z / WHITE[2]].map(|part| match part > 216.0 / 24_389.0 {
        true => part.cbrt(),
        false => (24_389.0 / 27.0 * part + 16.0) / 116.0,
    });
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// Sharma, Wu, Dalal: The CIEDE2000 Color-Difference Formula (2005).
fn ciede2000([l1, a1, b1]: [f64; 3], [l2, a2, b2]: [f64; 3]) -> f64 {
    let seventh = |chroma: f64| (chroma.powi(7) / (chroma.powi(7) + 25f64.powi(7))).sqrt();
    let g = 0.5 * (1.0 - seventh(f64::midpoint(a1.hypot(b1), a2.hypot(b2))));
    let [a1, a2] = [a1, a2].map(|a| a * (1.0 + g));
    let [c1, c2] = [a1.hypot(b1), a2.hypot(b2)];
    let [h1, h2] = [(b1, a1), (b2, a2)].map(|(b, a)| b.atan2(a).to_degrees().rem_euclid(360.0));
    let is_grey = c1 * c2 == 0.0;
    let turn = match is_grey {
        true => 0.0,
        false => (h2 - h1 + 180.0).rem_euclid(360.0) - 180.0,
    };
    let hue = match (is_grey, (h1 - h2).abs() <= 180.0) {
        (true, _) => h1 + h2,
        (false, true) => f64::midpoint(h1, h2),
        (false, false) => (f64::midpoint(h1, h2) + 180.0).rem_euclid(360.0),
    };
    let (lightness, chroma) = (f64::midpoint(l1, l2), f64::midpoint(c1, c2));
    let cos = |degrees: f64| degrees.to_radians().cos();
    let t = 1.0 - 0.17 * cos(hue - 30.0) + 0.24 * cos(2.0 * hue) + 0.32 * cos(3.0 * hue + 6.0)
        - 0.20 * cos(4.0 * hue - 63.0);
    let middle = (lightness - 50.0).powi(2);
    let dl = (l2 - l1) / (1.0 + 0.015 * middle / (20.0 + middle).sqrt());
    let dc = (c2 - c1) / (1.0 + 0.045 * chroma);
    let dh = 2.0 * (c1 * c2).sqrt() * (turn / 2.0).to_radians().sin() / (1.0 + 0.015 * chroma * t);
    let rotation = -(60.0 * (-((hue - 275.0) / 25.0).powi(2)).exp())
        .to_radians()
        .sin()
        * 2.0
        * seventh(chroma);
    (dl.powi(2) + dc.powi(2) + dh.powi(2) + rotation * dc * dh).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the test data of the paper.
    #[test]
    fn distances_are_those_of_the_paper() {
        for (one, other, distance) in [
            ([50.0, 2.6772, -79.7751], [50.0, 0.0, -82.7485], 2.0425),
            ([50.0, 2.5, 0.0], [50.0, 0.0, -2.5], 4.3065),
            ([50.0, 2.5, 0.0], [73.0, 25.0, -18.0], 27.1492),
            ([60.2574, -34.0099, 36.2677], [60.4626, -34.1751, 39.4387], 1.2644),
            ([22.7233, 20.0904, -46.6940], [23.0331, 14.9730, -42.5619], 2.0373),
            ([2.0776, 0.0795, -1.1350], [0.9033, -0.0636, -0.5514], 0.9082),
        ] {
            let found = ciede2000(one, other);
            assert!((found - distance).abs() < 0.000_1, "{found}, not {distance}");
        }
    }

    #[test]
    fn red_and_green_differ_for_those_who_see_them() {
        let far = |seen| farness([200, 30, 30], [110, 95, 20], seen);
        assert!(far(Seen::WithAllColours) > 30.0);
        assert!(far(Seen::WithoutGreen) < far(Seen::WithAllColours) / 2.0);
        assert_eq!(farness([0, 0, 0], [0, 0, 0], Seen::WithoutRed), 0.0);
    }
}
