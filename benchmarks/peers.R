# Base R, sdcMicro and synthpop on the two files: Rscript peers.R ORIGINAL.csv RELEASED.csv
# Prints one line per package that is here, and per task its name, the best of three times in seconds, and its value.

paths <- commandArgs(trailingOnly = TRUE)
a <- read.csv(paths[1])
b <- read.csv(paths[2])
task <- function(name, work, rounds = 3) {
  value <- as.numeric(work())[1]
  best <- min(replicate(rounds, system.time(work())[["elapsed"]]))
  cat("row", name, format(best, digits = 6), format(value, digits = 15), sep = "\t")
  cat("\n")
}
has <- function(package) {
  found <- requireNamespace(package, quietly = TRUE)
  if (found) cat("package", package, sep = "\t", "\n")
  found
}

formula <- as.formula(paste("v0 ~", paste(setdiff(names(a), "v0"), collapse = " + ")))
overlap <- function() {
  x <- confint(lm(formula, a))
  y <- confint(lm(formula, b))
  common <- pmax(0, pmin(x[, 2], y[, 2]) - pmax(x[, 1], y[, 1]))
  mean((common / (x[, 2] - x[, 1]) + common / (y[, 2] - y[, 1])) / 2)
}
task("base R, two lm() and confint()", overlap)

pmse <- function() {
  pooled <- rbind(cbind(a, source = 0), cbind(b, source = 1))
  chance <- fitted(glm(source ~ ., binomial, pooled, control = glm.control(epsilon = 1e-12)))
  mean((chance - nrow(b) / nrow(pooled))^2)
}
task("base R, glm() of the pooled file", pmse)

distance <- function() mean(sapply(names(a), function(c) suppressWarnings(ks.test(a[[c]], b[[c]])$statistic)))
task("base R, ks.test() per column", distance)

if (has("sdcMicro")) {
  task("sdcMicro microaggregation(mdav)", function() sdcMicro::microaggregation(a, method = "mdav", aggr = 3)$mx[1, 1], 1)
  task("sdcMicro rankSwap", function() sdcMicro::rankSwap(a, variables = names(a), P = 5, TopPercent = 0, BottomPercent = 0)[1, 1])
  task("sdcMicro addNoise", function() sdcMicro::addNoise(a, noise = 40)$xm[1, 1])
  task("sdcMicro dUtility(IL1)", function() sdcMicro::dUtility(a, b, method = "IL1"))
}
if (has("synthpop")) {
  task("synthpop syn(cart)", function() synthpop::syn(a, print.flag = FALSE)$syn[1, 1], 1)
  task("synthpop utility.gen(logit)", function() {
    made <- list(syn = b, m = 1)
    class(made) <- "synds"
    synthpop::utility.gen(made, a, method = "logit", maxorder = 0, print.flag = FALSE)$pMSE
  }, 1)
}
