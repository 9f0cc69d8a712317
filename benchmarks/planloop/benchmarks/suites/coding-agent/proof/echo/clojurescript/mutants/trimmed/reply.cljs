(ns reply
  (:require [clojure.string :as str]))

(defn reply [body type answer]
  (answer (str/trim (.toString body)) type))
